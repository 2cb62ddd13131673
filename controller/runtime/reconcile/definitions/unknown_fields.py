"""Reports fields of pod templates that the API server does not know.

Manta's definitions keep pod templates as they are, so that a misspelt field is stored and then
silently dropped when the pod is created. The object is reconciled all the same; a condition and an
event name each such field.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.conditions import find_condition, stored_message
from controller.apimachinery.custom_object import IdentityMemo
from controller.kube.resources import PODS
from controller.runtime.plan import Event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from controller.apimachinery.conditions import ConditionSet
    from controller.apimachinery.schemas.object_schema import ObjectSchema, UnknownField
    from controller.kube.objects import KubeObject
    from controller.runtime.kind import CacheReader

FIELDS_KNOWN: Final = "FieldsKnown"
_SHOWN: Final = 10


class UnknownFieldFinder:
    """Finds the unknown fields of an object's pod templates, once per object and pod schema.

    Args:
        find: returns the unknown fields of an object, given the schema of pods.
    """

    def __init__(self, find: Callable[[Any, ObjectSchema], Iterable[UnknownField]]) -> None:
        self._find = find
        self._pod: ObjectSchema | None = None
        self._memo = IdentityMemo(self._message)

    def __call__(self, obj: KubeObject, reads: CacheReader) -> str:
        """Return a sentence that names the fields; empty without such fields or a schema."""
        pod = reads.installed_schema(PODS).schema
        if pod is not self._pod:
            self._pod, self._memo = pod, IdentityMemo(self._message)
        return self._memo(obj) if pod is not None else ""

    def _message(self, obj: KubeObject) -> str:
        assert self._pod is not None
        return describe(tuple(self._find(obj, self._pod)))


def describe(fields: Sequence[UnknownField]) -> str:
    """Return the message of the condition, empty if there are no such fields."""
    if not fields:
        return ""
    shown = ", ".join(map(str, fields[:_SHOWN]))
    more = len(fields) - _SHOWN
    rest = f" and {more} more" if more > 0 else ""
    return f"unknown to this API server, which drops them: {shown}{rest}; correct or remove them"


def set_fields_known(conditions: ConditionSet, message: str) -> None:
    """Set the condition while there are unknown fields, remove it otherwise."""
    conditions.set_if(FIELDS_KNOWN, "False", "UnknownFields", message)


def unknown_field_events(
    conditions: Sequence[Mapping[str, Any]], message: str
) -> tuple[Event, ...]:
    """Return the event, unless the stored condition has the same message."""
    known = find_condition(conditions, FIELDS_KNOWN) or {}
    if not message or known.get("message") == stored_message(message):
        return ()
    return (Event("Warning", "UnknownFields", "Validate", message),)
