"""The pods that one plan of a cluster has seen, deleted or missed, kept for the next plan."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from controller.ray.cluster.observed.drain_memory import DrainMemory
from controller.runtime.plan import Delete
from workqueue import Backoff

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from controller.kube.objects import Pod
    from controller.runtime.plan import Plan

LOSS_BACKOFF: Final = Backoff(base=20.0, cap=300.0)
"""Delays of replacements, by the rounds in which pods were lost."""


@dataclass(frozen=True, slots=True)
class Losses:
    """The losses of one scope since its pods were last healthy.

    Members are pods, or replicas of several hosts, by name.

    Attributes:
        rounds: how often pods were lost, the last time included.
        began: time at which the last round began.
        lost: the members lost in that round.
        before: the members that existed when it began; their losses belong to it.
        template: hash of the template of the scope's pods.
        last: the last lost pod, in its last observed state.
    """

    rounds: int
    began: datetime
    lost: frozenset[str]
    before: frozenset[str]
    template: str
    last: Pod

    @property
    def repeated(self) -> bool:
        """True if replacements were lost too."""
        return self.rounds > 1

    @property
    def wait(self) -> float:
        """Seconds from the last round until the lost pods are replaced."""
        return LOSS_BACKOFF.delay(self.rounds - 2) if self.repeated else 0.0

    @property
    def next_try(self) -> datetime:
        """The time at which the lost pods are replaced."""
        return self.began + timedelta(seconds=self.wait)


@dataclass(frozen=True, slots=True)
class PodHistory:
    """The memory of a plan about the pods of a cluster, for the next plan. A restart forgets it.

    Attributes:
        alive: pods that had not ended and were not terminating, by uid.
        known: uids of all pods.
        condemned: uids of the pods that plans have deleted.
        losses: losses by scope.
        waiting: scopes in which lost pods are not replaced yet.
        drains: the nodes that Ray was told to drain.
        troubled: whether the condition `Ready` has named a cause that was told as an event.
        told: generation, reason and component of these causes since the cluster was last ready or
            edited.
    """

    alive: Mapping[str, Pod] = field(default_factory=dict[str, "Pod"])
    known: frozenset[str] = frozenset()
    condemned: frozenset[str] = frozenset()
    losses: Mapping[str, Losses] = field(default_factory=dict[str, Losses])
    waiting: frozenset[str] = frozenset()
    drains: DrainMemory = field(default_factory=DrainMemory)
    troubled: bool = False
    told: frozenset[tuple[int, str, str]] = frozenset()

    def after(self, plan: Plan) -> PodHistory:
        """Return the history after a plan was carried out."""
        deleted = (w.uid for stage in plan.stages for w in stage if isinstance(w, Delete))
        return replace(self, condemned=self.condemned.union(deleted))

    def has_ended(self, scope: str, name: str) -> bool:
        """Return whether the last lost pod of a scope has this name, and had ended for good."""
        losses = self.losses.get(scope)
        if losses is None or losses.last.metadata.name != name:
            return False
        return losses.last.status.phase in {"Failed", "Succeeded"}

    def seconds_until_next_try(self, now: datetime) -> float | None:
        """Return the seconds until lost pods of a scope are replaced, None if none wait."""
        tries = (self.losses[scope].next_try for scope in self.waiting)
        return min(((each - now).total_seconds() for each in tries), default=None)
