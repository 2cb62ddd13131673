"""Compares a wanted status with the present one.

A failing object is reconciled again and again, and the server may word each refusal differently.
A condition keeps its message if the new one differs only in ids, numbers and the like.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from controller.apimachinery.conditions import LONGEST_MESSAGE
from controller.apimachinery.redaction import fold

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from controller.kube.objects import KubeObject

_CONDITIONS: Final = "conditions"


def stored_status(obj: KubeObject) -> Mapping[str, Any]:
    """Return the present status as plain data, with the field names of the API."""
    status: Any = msgspec.to_builtins(getattr(obj, "status", None))
    return cast("Mapping[str, Any]", status) if isinstance(status, Mapping) else {}


def conditions_in(status: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the conditions of a status, without members that are not objects."""
    listed: Any = status.get(_CONDITIONS)
    for each in cast("list[Any]", listed) if isinstance(listed, list | tuple) else ():
        if isinstance(each, Mapping):
            yield cast("Mapping[str, Any]", each)


def keep_messages(
    present: Mapping[str, Any], wanted: Mapping[str, Any], records: Collection[str] = ()
) -> dict[str, Any]:
    """Return the wanted status, with the present message of each condition that means the same.

    The messages of `records`, types of conditions, are more than words.
    """
    if _CONDITIONS not in wanted:
        return dict(wanted)
    said = {_outcome(each): str(each.get("message", "")) for each in conditions_in(present)}
    kept: list[Mapping[str, Any]] = []
    for each in conditions_in(wanted):
        message = str(each.get("message", ""))
        before = message if _is_record(each, records) else said.get(_outcome(each), message)
        kept.append({**each, "message": before} if _say_the_same(before, message) else each)
    return {**wanted, _CONDITIONS: kept}


def changes_only_messages(
    present: Mapping[str, Any], patch: Mapping[str, Any], records: Collection[str] = ()
) -> bool:
    """Return whether a patch of the status changes nothing but the messages of conditions.

    The messages of `records`, types of conditions, are more than words.
    """
    if set(patch) != {_CONDITIONS}:
        return False
    return _told(present, records) == _told(patch, records)


def changes_a_record(
    present: Mapping[str, Any], patch: Mapping[str, Any], records: Collection[str]
) -> bool:
    """Return whether a patch changes a condition of these types, or removes or adds one."""
    return _CONDITIONS in patch and _records(present, records) != _records(patch, records)


def _say_the_same(before: str, message: str) -> bool:
    """Return whether the folds are equal, up to the end of messages that were cut."""
    if len(before) < LONGEST_MESSAGE or len(message) < LONGEST_MESSAGE:
        return fold(before) == fold(message)
    one, other = (fold(text.rsplit(" ", 1)[0]) for text in (before, message))  # less a cut word
    return one.startswith(other) or other.startswith(one)


def _told(status: Mapping[str, Any], records: Collection[str]) -> list[tuple[str, ...]]:
    """Return the outcome of each condition, with the message of each record."""
    return [
        (*_outcome(each), str(each.get("message")) if _is_record(each, records) else "")
        for each in conditions_in(status)
    ]


def _records(status: Mapping[str, Any], records: Collection[str]) -> list[tuple[str, ...]]:
    listed = (each for each in conditions_in(status) if _is_record(each, records))
    return [(*_outcome(each), str(each.get("message"))) for each in listed]


def _is_record(condition: Mapping[str, Any], records: Collection[str]) -> bool:
    return str(condition.get("type")) in records


def _outcome(condition: Mapping[str, Any]) -> tuple[str, ...]:
    """Return type, status and reason as text: other writers may have stored any value."""
    return tuple(str(condition.get(field)) for field in ("type", "status", "reason"))
