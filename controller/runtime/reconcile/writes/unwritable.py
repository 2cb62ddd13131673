"""Reports by an event that an object cannot be written, because its status cannot report it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.apimachinery.redaction import fold
from controller.runtime.plan import Event, subresource_of

if TYPE_CHECKING:
    from controller.runtime.plan import Failure, Write

FAILED_UPDATE: Final = "FailedUpdate"
"""Reason of the event."""


class UnwritableObjects:
    """The objects that the server refused to change, with the last refusal of each part."""

    def __init__(self) -> None:
        self._refusals: dict[str, dict[str, str]] = {}  # folded, by uid and part

    def refused(self, uid: str, failure: Failure) -> Event | None:
        """Return the event about a refused write; None if the same was reported before."""
        part, text = _part_of(failure.write), fold(failure.message)
        refusals = self._refusals.setdefault(uid, {})
        if refusals.get(part) == text:
            return None
        refusals[part] = text
        note = (
            f"cannot write the {part} of this object, so what it shows is out of date: "
            f"{failure.reason}: {failure.message}; the operator tries again"
        )
        return Event("Warning", FAILED_UPDATE, "Update", note)

    def written(self, uid: str, write: Write) -> None:
        """Forget the refusal of a part that was written."""
        refusals = self._refusals.get(uid, {})
        refusals.pop(_part_of(write), None)
        if not refusals:
            self.forget(uid)

    def forget(self, uid: str) -> None:
        """Forget all refusals of an object that no longer exists."""
        self._refusals.pop(uid, None)


def _part_of(write: Write) -> str:
    return subresource_of(write) or "metadata"
