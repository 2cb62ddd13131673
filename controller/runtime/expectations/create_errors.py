"""Remembers the last error of each create, so that planners can give up or name the cause.

An error is kept until a create under that name succeeds or the owner no longer exists.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from controller.runtime.expectations.expectation import ObjectReference
    from controller.runtime.expectations.owners import Owner, OwnerIndex
    from controller.runtime.kind import CreateError

CAPACITY: Final = 4096
"""Maximum errors to keep. The oldest is discarded first; the next attempt records it again."""


class CreateErrors:
    """The last create error under each name. Every call is O(1).

    Args:
        owners: the owners that still exist.
    """

    def __init__(self, owners: OwnerIndex) -> None:
        self._owners = owners
        self._known: dict[ObjectReference, tuple[str, CreateError]] = {}

    def add(self, owner: Owner, reference: ObjectReference, error: CreateError) -> None:
        """Record that the server rejected a create of this object with `error`."""
        self._known.pop(reference, None)
        self._known[reference] = (owner.uid, error)
        if len(self._known) > CAPACITY:
            del self._known[next(iter(self._known))]

    def forget(self, reference: ObjectReference) -> None:
        """Forget the error: a create of this object succeeded."""
        self._known.pop(reference, None)

    def get(self, reference: ObjectReference) -> CreateError | None:
        """Return the last error under this name, None if its owner no longer exists."""
        known = self._known.get(reference)
        if known is None or self._owners.get(known[0]) is None:
            return None
        return known[1]
