"""Fields of pod templates that the API server does not know.

Manta's definitions keep pod templates as they are, so that a field with a typing error is stored,
and dropped without a word when the pod is created. The object is served all the same; a condition
and an event name each such field.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.conditions import find_condition, stored_message
from controller.apimachinery.memo import IdentityMemo
from controller.kube.resources import PODS
from controller.runtime.plan import Event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from controller.apimachinery.conditions import ConditionSet
    from controller.apimachinery.object_schema import ObjectSchema
    from controller.apimachinery.unknown_fields import UnknownField
    from controller.kube.objects import KubeObject
    from controller.runtime.kind import CacheReader

FIELDS_KNOWN: Final = "FieldsKnown"
_SHOWN: Final = 10


class UnknownFieldFinder:
    """Finds the unknown fields of an object's pod templates; once per object and pod schema.

    Args:
        find: gives those of an object, by the schema of pods.
    """

    def __init__(self, find: Callable[[Any, ObjectSchema], Iterable[UnknownField]]) -> None:
        self._find = find
        self._pod: ObjectSchema | None = None
        self._memo = IdentityMemo(self._message)

    def __call__(self, obj: KubeObject, reads: CacheReader) -> str:
        """A sentence that names the fields; empty if there are none, or no schema is known."""
        pod = reads.installed_schema(PODS).schema
        if pod is not self._pod:
            self._pod, self._memo = pod, IdentityMemo(self._message)
        return self._memo(obj) if pod is not None else ""

    def _message(self, obj: KubeObject) -> str:
        assert self._pod is not None
        return describe(tuple(self._find(obj, self._pod)))


def describe(fields: Sequence[UnknownField]) -> str:
    """The sentence of the condition, empty if there are no such fields."""
    if not fields:
        return ""
    shown = ", ".join(map(str, fields[:_SHOWN]))
    more = len(fields) - _SHOWN
    rest = f" and {more} more" if more > 0 else ""
    return f"unknown to this API server, which drops them: {shown}{rest}; correct or remove them"


def set_fields_known(conditions: ConditionSet, message: str) -> None:
    """The condition, present only while there are unknown fields."""
    conditions.set_if(FIELDS_KNOWN, "False", "UnknownFields", message)


def unknown_field_events(
    conditions: Sequence[Mapping[str, Any]], message: str
) -> tuple[Event, ...]:
    """The event, unless the stored condition has the same message."""
    known = find_condition(conditions, FIELDS_KNOWN) or {}
    if not message or known.get("message") == stored_message(message):
        return ()
    return (Event("Warning", "UnknownFields", "Validate", message),)
