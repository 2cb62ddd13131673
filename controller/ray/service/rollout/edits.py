"""Assigns the user's edits to clusters: a Serve config, bounds of replicas, more groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.ray.api.rayservice import UpgradeType
from controller.ray.service.rollout.facts import GoalCluster

if TYPE_CHECKING:
    from controller.ray.service.rollout.facts import RolloutFacts


def edited_cluster(facts: RolloutFacts) -> GoalCluster:
    """Return the cluster that has the wanted specification; `OTHER` in a rollback.

    So a config never reaches the active cluster before the pending one is promoted or dropped.
    """
    return GoalCluster.OTHER if facts.rolling_back else facts.goal


def keeps_outdated_cluster(facts: RolloutFacts) -> bool:
    """Return whether strategy `None` keeps an active cluster of an outdated specification.

    An edited config still reaches it, because no other cluster would ever get it.
    """
    keeps = facts.strategy is UpgradeType.NONE and facts.goal is GoalCluster.OTHER
    return keeps and facts.active.exists and not facts.pending.recorded
