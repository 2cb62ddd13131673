"""`status.conditions`: the operator's words to the user about one object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from controller.apimachinery.timestamps import rfc3339

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime


def set_condition(  # noqa: PLR0917  the parts of a condition, in their usual order
    conditions: Sequence[Mapping[str, Any]],
    type: str,  # noqa: A002  the field's own name
    status: Literal["True", "False", "Unknown"],
    reason: str,
    message: str,
    generation: int,
    now: datetime,
) -> list[dict[str, Any]]:
    """A new list in which condition `type` says this; the order of the others is kept.

    `lastTransitionTime` moves only when `status` changes, as `meta.SetStatusCondition` does, so
    that setting the same condition again gives an equal list.
    """
    wanted: dict[str, Any] = {
        "type": type,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": rfc3339(now),
        "observedGeneration": generation,
    }
    result = [dict(condition) for condition in conditions]
    for position, present in enumerate(result):
        if present.get("type") == type:
            since = present.get("lastTransitionTime")
            if since and present.get("status") == status:
                wanted["lastTransitionTime"] = since
            result[position] = wanted
            return result
    return [*result, wanted]


def find_condition(conditions: Sequence[Mapping[str, Any]], type: str) -> Mapping[str, Any] | None:  # noqa: A002
    """The condition of that type, or None."""
    for condition in conditions:
        if condition.get("type") == type:
            return condition
    return None


def remove_condition(
    conditions: Sequence[Mapping[str, Any]],
    type: str,  # noqa: A002
) -> list[dict[str, Any]]:
    """A new list without condition `type`."""
    return [dict(condition) for condition in conditions if condition.get("type") != type]
