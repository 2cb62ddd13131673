"""What the caches cannot tell, so that the owner's next reconcile has to find it out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from controller.runtime.plan import Create, Delete

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from controller.runtime.expectations.expectation import Expectation, ObjectReference
    from controller.runtime.expectations.owners import Owner
    from controller.runtime.plan import Write


@dataclass(frozen=True, slots=True)
class Questions:
    """What an owner must find out.

    Attributes:
        repeats: creates and deletes of unknown outcome, which are sent again.
        reads: objects that are to be read live now.
        wait: seconds until the next one is, None if the caches can tell all that is left.
    """

    repeats: tuple[Write, ...] = ()
    reads: tuple[ObjectReference, ...] = ()
    wait: float | None = None


def questions(
    owner: Owner,
    expectations: Iterable[Expectation[Any]],
    next_live_read: Callable[[Expectation[Any]], float],
) -> Questions:
    """Return what an owner must find out about these expectations.

    Args:
        owner: asks.
        expectations: its own.
        next_live_read: seconds until an object must be read live; zero or less means now.
    """
    repeats: list[Write] = []
    reads: list[ObjectReference] = []
    wait = math.inf
    for each in expectations:
        if each.write is not None and not each.outcome_unknown:
            continue  # in flight
        if each.write is not None and _may_be_repeated(owner, each):
            repeats.append(each.write)
            continue
        rest = next_live_read(each)
        if rest <= 0:
            reads.append(each.reference)
        else:
            wait = min(wait, rest)
    return Questions(tuple(repeats), tuple(reads), wait if wait < math.inf else None)


def is_repetition(owner: Owner, write: Write, expectation: Expectation[Any]) -> bool:
    """Return whether a planned write is one that is sent again anyway."""
    if expectation.unknown_since is None or not _may_be_repeated(owner, expectation):
        return False
    match write, expectation.write:
        case Create(), Create():
            return True
        case Delete(), Delete():
            return write.uid == expectation.write.uid
        case _:
            return False


def _may_be_repeated(owner: Owner, expectation: Expectation[Any]) -> bool:
    """Return whether this owner sends the write again if its outcome is unknown.

    Nothing is created for a terminating owner (EXP-12), and what was to be deleted for another
    generation may be wanted by now. A deleted object that the store no longer shows is read live,
    like any object that has left the store (EXP-24). Changes are read and planned anew.
    """
    if expectation.writer != owner.uid:
        return False
    match expectation.write:
        case Create():
            return not owner.terminating
        case Delete():
            same = expectation.generation == owner.generation
            return same and not expectation.needs_live_read
        case _:
            return False
