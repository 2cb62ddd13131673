"""The cluster to which the stable services lead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.ray.service.rollout.facts import SelectedCluster
from controller.ray.service.rollout.moves import carrying_weight
from controller.ray.service.rollout.shares import FULL
from controller.ray.service.rollout.steps import Change, RolloutWait
from controller.ray.service.rollout.transitions import Phase, next_step, phase_of

if TYPE_CHECKING:
    from controller.ray.service.rollout.facts import RolloutFacts

_STEPWISE = frozenset({Phase.UPGRADING, Phase.ROLLING_BACK})


def wanted_selection(facts: RolloutFacts) -> SelectedCluster:
    """Return the cluster that the services should select.

    In an incremental upgrade they select the pending cluster when it has all of the traffic.
    Otherwise they select it when nothing else is missing for it to take over.
    """
    if facts.incremental and phase_of(facts) in _STEPWISE:
        return _of_traffic(facts)
    step = next_step(facts)
    if step is RolloutWait.SERVICES or step is Change.PROMOTE:
        return SelectedCluster.PENDING
    return SelectedCluster.ACTIVE if facts.active.recorded else facts.selection


def _of_traffic(facts: RolloutFacts) -> SelectedCluster:
    """Return the cluster that has got the traffic, if it certainly has ready replicas."""
    wanted, cluster = SelectedCluster.ACTIVE, facts.active
    if carrying_weight(facts) == FULL:
        wanted, cluster = SelectedCluster.PENDING, facts.pending
    return (
        wanted if cluster.ready or facts.selection is SelectedCluster.NEITHER else facts.selection
    )
