"""Decides which Workspaces of an InferenceSet are created and which are deleted.

The promises, for any view that was true once and however often the decision is carried out:

* there are never more Workspaces than the set asks for, unless there were before;
* a replica that is being deleted is replaced when it is gone, because it holds nodes until then;
* no ready replica is deleted if fewer ready ones than the set asks for would be left.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from controller.kaito.inferenceset.replicas import Replica


@dataclass(frozen=True, slots=True)
class SetDecision:
    """Creations and deletions that are due now; all of them may be done at once.

    Attributes:
        create: names of new Workspaces.
        delete: replicas that are too many.
    """

    create: tuple[str, ...] = ()
    delete: tuple[Replica, ...] = ()


def next_changes(
    desired: int, replicas: Sequence[Replica], free: Sequence[str], batch: int
) -> SetDecision:
    """The changes that bring the number of replicas to what is wanted.

    Args:
        desired: number of replicas.
        replicas: the Workspaces of the set, terminating ones and those that Kaito named included.
        free: names for those that are missing, in order. The name of a replica that another owner
            has is not among them, and is waited for: another one would be a second name for it.
        batch: Workspaces that are created or deleted at most.
    """
    surplus = len(replicas) - desired
    if surplus > 0:
        return SetDecision(delete=tuple(islice(_too_many(replicas, desired, surplus), batch)))
    return SetDecision(create=tuple(free[: min(-surplus, batch)]))


def _too_many(replicas: Sequence[Replica], desired: int, surplus: int) -> Iterator[Replica]:
    """The replicas to delete: those on an old image first, and those that do not serve.

    A replica on the present image goes only if there are not old ones enough, so that an upgrade by
    a surge never deletes the newcomer; until that serves, no old one goes.
    """
    staying = [each for each in replicas if not each.terminating]
    left = surplus - (len(replicas) - len(staying))
    spare_ready = sum(each.ready for each in staying) - desired
    spare_new = left - sum(each.on_old_image for each in staying)
    for each in sorted(staying, key=_worth):
        spared = (each.ready and spare_ready <= 0) or (not each.on_old_image and spare_new <= 0)
        if left <= 0 or spared:
            continue
        left -= 1
        spare_ready -= each.ready
        spare_new -= not each.on_old_image
        yield each


def _worth(each: Replica) -> tuple[bool, bool, str]:
    return not each.on_old_image, each.ready, each.name
