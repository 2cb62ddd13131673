"""`status.conditions` of an object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from controller.apimachinery.timestamps import rfc3339

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

READY: Final = "Ready"
"""Condition type that reports whether an object is as specified, and if not, why."""

OBSERVATION_IN_DOUBT: Final = "ObservationInDoubt"
"""Condition type that reports disagreements of cache and API server."""

CONTESTED: Final = "FieldsContested"
"""Condition type that names fields over which the operator and another writer disagree."""

FEATURES_SUPPORTED: Final = "FeaturesSupported"
"""Condition type that names fields that are accepted and have no effect yet."""

CHILD_HELD: Final = "ChildHeld"
"""Condition type that names children that finalizers of others keep from being deleted."""

LONGEST_MESSAGE: Final = 4096
"""Maximum characters of a condition's message; the server accepts eight times as many."""

_RECOGNISED: Final = 256
"""Characters at the end of a cut message by which a longer text is recognised."""

ConditionStatus: TypeAlias = Literal["True", "False", "Unknown"]


class ConditionSet:
    """The conditions of one object, which are changed one after the other.

    Args:
        present: the stored conditions; they are not modified.
        generation: generation of the object, for `observedGeneration`.
        now: time for `lastTransitionTime`.
    """

    def __init__(
        self, present: Sequence[Mapping[str, Any]], generation: int, now: datetime
    ) -> None:
        self._conditions = [dict(each) for each in present]
        self._generation = generation
        self._now = rfc3339(now)

    def as_list(self) -> list[dict[str, Any]]:
        """Return the conditions for `status.conditions`."""
        return self._conditions

    def is_true(self, type: str) -> bool:  # noqa: A002  the field's own name
        """Return whether the condition is present and True."""
        return is_true(self._conditions, type)

    def set(self, type: str, status: ConditionStatus, reason: str, message: str) -> None:  # noqa: A002
        """Set one condition; its message is stored as `stored_message` cuts it.

        `lastTransitionTime` moves only when `status` changes, as `meta.SetStatusCondition` does, so
        that setting the same condition again gives an equal list. The order is kept.
        """
        wanted: dict[str, Any] = {
            "type": type,
            "status": status,
            "reason": reason,
            "message": stored_message(message),
            "lastTransitionTime": self._now,
            "observedGeneration": self._generation,
        }
        for position, present in enumerate(self._conditions):
            if present.get("type") == type:
                since = present.get("lastTransitionTime")
                if since and present.get("status") == status:
                    wanted["lastTransitionTime"] = since
                self._conditions[position] = wanted
                return
        self._conditions.append(wanted)

    def remove(self, type: str) -> None:  # noqa: A002
        """Remove one condition, if it is present."""
        self._conditions = [each for each in self._conditions if each.get("type") != type]

    def set_if(self, type: str, status: ConditionStatus, reason: str, message: str) -> None:  # noqa: A002
        """Set a condition if there is a message, else remove it."""
        if message:
            self.set(type, status, reason, message)
        else:
            self.remove(type)

    def set_features(self, unsupported: Sequence[str]) -> None:
        """Report fields that are accepted and have no effect yet."""
        fields = ", ".join(unsupported)
        message = fields and f"accepted, but without effect in this version: {fields}"
        self.set_if(FEATURES_SUPPORTED, "False", "NotImplementedYet", message)


def stored_message(text: str) -> str:
    """Return the text as a condition stores it, cut to the longest message."""
    return text[:LONGEST_MESSAGE]


def tells(condition: Mapping[str, Any], text: str) -> bool:
    """Return whether the stored message contains the text, or was cut within it."""
    message = str(condition.get("message", ""))
    if text in message:
        return True
    begins = message.find(text[:_RECOGNISED])
    return len(message) == LONGEST_MESSAGE and begins >= 0 and text.startswith(message[begins:])


def is_true(conditions: Sequence[Mapping[str, Any]], type: str) -> bool:  # noqa: A002
    """Return whether the condition is present and True."""
    found = find_condition(conditions, type)
    return found is not None and found.get("status") == "True"


def find_condition(conditions: Sequence[Mapping[str, Any]], type: str) -> Mapping[str, Any] | None:  # noqa: A002
    """Return the condition of that type, or None."""
    for condition in conditions:
        if condition.get("type") == type:
            return condition
    return None
