"""Decides which Workspaces of an InferenceSet are created and which are deleted.

It guarantees, for every state that was once observed and however often it is carried out:

* there are never more Workspaces than the set requests, unless there were before;
* a replica that is being deleted is replaced only when it is gone, because it holds nodes until
  then;
* no ready replica is deleted if fewer ready ones than requested would be left.
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
    """The creates and deletes that are due now, in any order.

    Attributes:
        create: names of new Workspaces.
        delete: surplus replicas.
    """

    create: tuple[str, ...] = ()
    delete: tuple[Replica, ...] = ()


def next_changes(
    desired: int, replicas: Sequence[Replica], free: Sequence[str], batch: int
) -> SetDecision:
    """Return the changes that lead to the desired number of replicas.

    Args:
        desired: number of replicas.
        replicas: the Workspaces of the set, including terminating ones and those named by Kaito.
        free: names for missing replicas, in order. A name that another owner holds is left out:
            its replica waits, because another name would make a second one of it.
        batch: maximum Workspaces to create or delete.
    """
    surplus = len(replicas) - desired
    if surplus > 0:
        return SetDecision(delete=tuple(islice(_too_many(replicas, desired, surplus), batch)))
    return SetDecision(create=tuple(free[: min(-surplus, batch)]))


def _too_many(replicas: Sequence[Replica], desired: int, surplus: int) -> Iterator[Replica]:
    """Yield the replicas to delete: first those on an old image, and those that do not serve.

    A replica on the present image is deleted only if there are too few old ones, so that an upgrade
    with a surge never deletes the new replica. Until that one serves, no old one is deleted.
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
