"""Which cluster gets what the user edits: a Serve config, bounds of replicas, more groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.ray.service.rollout.facts import Goal

if TYPE_CHECKING:
    from controller.ray.service.rollout.facts import Facts


def edited_cluster(facts: Facts) -> Goal:
    """The cluster that has the wanted specification; in a rollback none (`Goal.OTHER`).

    So a config never reaches the active cluster before the pending one is promoted or given up.
    """
    return Goal.OTHER if facts.rolling_back else facts.goal
