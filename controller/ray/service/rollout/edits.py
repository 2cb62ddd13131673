"""Leads the user's edits to clusters: a Serve config, bounds of replicas, more groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.ray.service.rollout.facts import GoalCluster, Strategy

if TYPE_CHECKING:
    from controller.ray.service.rollout.facts import RolloutFacts


def edited_cluster(facts: RolloutFacts) -> GoalCluster:
    """The cluster that has the wanted specification; in a rollback none (`GoalCluster.OTHER`).

    So a config never reaches the active cluster before the pending one is promoted or given up.
    """
    return GoalCluster.OTHER if facts.rolling_back else facts.goal


def keeps_outdated_cluster(facts: RolloutFacts) -> bool:
    """True if strategy `None` keeps an active cluster of another specification than the wanted one.

    An edited config reaches it all the same, because no other cluster would ever get it.
    """
    keeps = facts.strategy is Strategy.NONE and facts.goal is GoalCluster.OTHER
    return keeps and facts.active.exists and not facts.pending.recorded
