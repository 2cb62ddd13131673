"""Remembers the last error of each create, so that planners can give up or name the cause.

An error is remembered until a create under that name succeeds or its owner is gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from controller.runtime.expectations.overlay import ObjectReference
    from controller.runtime.expectations.owners import Owner, OwnerIndex
    from controller.runtime.reconcile.kind import CreateError

CAPACITY: Final = 4096
"""CreateErrors remembered at most; the oldest is forgotten first, and learnt again by trying."""


class CreateErrors:
    """The last create error under each name. Every call is O(1).

    Args:
        owners: who is still there.
    """

    def __init__(self, owners: OwnerIndex) -> None:
        self._owners = owners
        self._known: dict[ObjectReference, tuple[str, CreateError]] = {}

    def add(self, owner: Owner, reference: ObjectReference, refusal: CreateError) -> None:
        """A create of this object was refused for these reasons."""
        self._known.pop(reference, None)
        self._known[reference] = (owner.uid, refusal)
        if len(self._known) > CAPACITY:
            del self._known[next(iter(self._known))]

    def forget(self, reference: ObjectReference) -> None:
        """A create of this object succeeded."""
        self._known.pop(reference, None)

    def get(self, reference: ObjectReference) -> CreateError | None:
        """The last refusal under this name on behalf of an owner that is still there."""
        uid, refusal = self._known.get(reference, ("", None))
        return refusal if self._owners.get(uid) is not None else None
