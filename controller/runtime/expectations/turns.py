"""Takes turns in resolving an owner's writes of unknown outcome.

A server that does not answer for one of them rarely answers for the others. So they are resolved in
growing steps, as creates are sent (EXP-10): one, two, four at a time. If one stays unknown, the
others wait and are tried in turn, one after each back-off of the owner. So sixty unknown outcomes
of an owner cost no more requests than one. A read that succeeds ends no back-off of writes: a
server whose database is full answers reads.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from workqueue import Backoff

if TYPE_CHECKING:
    import random

    from controller.runtime.expectations.expectation import ObjectReference

BACKOFF: Final = Backoff(base=0.5, cap=45.0)


@dataclass(slots=True)
class _Turns:
    """One owner: objects that are being resolved or will be soon, and those that wait."""

    width: int = 1
    failures: int = 0
    writes_fail: bool = False
    active: set[ObjectReference] = field(default_factory=set["ObjectReference"])
    waiting: OrderedDict[ObjectReference, None] = field(
        default_factory=OrderedDict["ObjectReference", None]
    )


class ResolverTurns:
    """The turns of all owners, by uid; an object is one owner's at a time.

    Args:
        rng: jitter of the back-off.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._owners: dict[str, _Turns] = {}
        self._owner_of: dict[ObjectReference, str] = {}

    def __contains__(self, reference: ObjectReference) -> bool:
        """Return whether it is this object's turn, or it waits for one."""
        return reference in self._owner_of

    def holds(self, owner: str, reference: ObjectReference) -> bool:
        """Return whether it is this object's turn among this owner's, or it waits for one."""
        return self._owner_of.get(reference) == owner

    def begin(self, owner: str, reference: ObjectReference) -> bool:
        """Return whether it is this object's turn; otherwise `end` returns it later."""
        turns = self._owners.setdefault(owner, _Turns())
        self._owner_of[reference] = owner
        if reference not in turns.active and len(turns.active) >= turns.width:
            turns.waiting[reference] = None
            return False
        turns.active.add(reference)
        return True

    def end(
        self, owner: str, reference: ObjectReference, *, resolved: bool, repeated: bool
    ) -> tuple[list[ObjectReference], float]:
        """Return the objects whose turn is next, with this one unless resolved, and the delay.

        Args:
            owner: uid of its owner.
            reference: the object whose turn ends.
            resolved: whether the outcome of its write is known now.
            repeated: whether its write was repeated; otherwise it was read.
        """
        turns = self._owners[owner]
        turns.active.discard(reference)
        if not resolved:
            turns.width, turns.failures = 1, turns.failures + 1
            turns.writes_fail |= repeated
            turns.waiting[reference] = None
            return self._next(owner, turns), self._delay(turns.failures)
        del self._owner_of[reference]
        if repeated or not turns.writes_fail:
            turns.width, turns.failures, turns.writes_fail = 2 * turns.width, 0, False
        return self._next(owner, turns), 0.0

    def drop(self, reference: ObjectReference, *, unless: str) -> list[ObjectReference]:
        """Forget an object, unless it is still this owner's; return those whose turn is next.

        While the object waited, the outcome of its write may have become known, or another owner
        may have written it.
        """
        owner = self._owner_of.get(reference)
        if owner is None or owner == unless:
            return []
        del self._owner_of[reference]
        turns = self._owners[owner]
        turns.active.discard(reference)
        turns.waiting.pop(reference, None)
        return self._next(owner, turns)

    def _next(self, owner: str, turns: _Turns) -> list[ObjectReference]:
        """Begin as many turns as the width allows."""
        following: list[ObjectReference] = []
        while turns.waiting and len(turns.active) < turns.width:
            first, _ = turns.waiting.popitem(last=False)
            turns.active.add(first)
            following.append(first)
        if not turns.active:
            del self._owners[owner]
        return following

    def _delay(self, failures: int) -> float:
        return BACKOFF.delay(failures - 1) * (1 + BACKOFF.jitter * self._rng.random())
