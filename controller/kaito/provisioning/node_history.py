"""Remembers the nodes of a Workspace, so that those that are lost soon cost little.

A node with GPUs is labelled, which is a request. Karpenter replaces lost nodes at once, for ever.
So where new nodes were lost, the label of the next one waits, up to half a minute: a node that is
lost before costs nothing. Nodes that are lost together are one round.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from workqueue import Backoff

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

_LASTS: Final = timedelta(minutes=10)
"""Age from which the loss of a node says nothing about its successor."""

_BACKOFF: Final = Backoff(base=10.0, cap=30.0)
"""Ages at which nodes are labelled, by the rounds in which nodes were lost."""


@dataclass(frozen=True, slots=True)
class NodeHistory:
    """The nodes of a Workspace, and how often new ones were lost. A restart forgets it.

    Attributes:
        since: times since which its nodes are known, by uid.
        rounds: consecutive times that new nodes were lost.
        lost: time of the last one.
    """

    since: Mapping[str, datetime] = field(default_factory=dict[str, "datetime"])
    rounds: int = 0
    lost: datetime | None = None

    def after(self, uids: Collection[str], now: datetime) -> NodeHistory:
        """Return the history after these nodes were seen; a clock may go back."""
        since = {uid: min(self.since.get(uid, now), now) for uid in uids}
        gone = [self.since[uid] for uid in self.since.keys() - since.keys()]
        if any(now - each < _LASTS for each in gone):
            return NodeHistory(since, self.rounds + 1, now)
        if self.lost is None or now - self.lost >= _LASTS:
            return NodeHistory(since)
        return NodeHistory(since, self.rounds, min(self.lost, now))

    def wait(self, uid: str, now: datetime) -> float:
        """Return the seconds until a node is to be labelled."""
        if not self.rounds:
            return 0.0
        age = now - self.since.get(uid, now)
        return max(_BACKOFF.delay(self.rounds - 1) - age.total_seconds(), 0.0)
