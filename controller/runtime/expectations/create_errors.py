"""What the server last refused to create, by name: planners must know it to give up or to say why.

A refusal is remembered until a create under that name succeeds or its owner is gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from controller.runtime.expectations.overlay import Reference
    from controller.runtime.expectations.owners import Accounts, Owner
    from controller.runtime.reconcile.kind import Refusal

CAPACITY: Final = 4096
"""Refusals remembered at most; the oldest is forgotten first, and learnt again by trying."""


class Refusals:
    """The last refusal under each name. Every call is O(1).

    Args:
        accounts: who is still there.
    """

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts
        self._known: dict[Reference, tuple[str, Refusal]] = {}

    def note(self, owner: Owner, reference: Reference, refusal: Refusal) -> None:
        """A create of this object was refused for these reasons."""
        self._known.pop(reference, None)
        self._known[reference] = (owner.uid, refusal)
        if len(self._known) > CAPACITY:
            del self._known[next(iter(self._known))]

    def forget(self, reference: Reference) -> None:
        """A create of this object succeeded."""
        self._known.pop(reference, None)

    def get(self, reference: Reference) -> Refusal | None:
        """The last refusal under this name on behalf of an owner that is still there."""
        uid, refusal = self._known.get(reference, ("", None))
        return refusal if self._accounts.get(uid) is not None else None
