"""An outdated active cluster gets an edited config only if no other one would ever get it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.ray.api.rayservice import UpgradeType
from controller.ray.service.rollout_facts import (
    NO_CLUSTER,
    ClusterFacts,
    GoalCluster,
    RolloutFacts,
    keeps_outdated_cluster,
)

RUNS = ClusterFacts(recorded=True, exists=True)
KEPT = RolloutFacts(strategy=UpgradeType.NONE, goal=GoalCluster.OTHER, active=RUNS)


def test_strategy_none_keeps_the_cluster_that_there_is():
    assert keeps_outdated_cluster(KEPT)


@pytest.mark.parametrize(
    "facts",
    [
        replace(KEPT, strategy=UpgradeType.NEW_CLUSTER),
        replace(KEPT, strategy=UpgradeType.INCREMENTAL),
        replace(KEPT, goal=GoalCluster.ACTIVE),
        replace(KEPT, active=NO_CLUSTER),
        replace(KEPT, pending=RUNS),
    ],
    ids=["a new cluster", "an incremental upgrade", "nothing outdated", "no cluster", "a pending"],
)
def test_otherwise_another_cluster_gets_the_config(facts: RolloutFacts):
    assert not keeps_outdated_cluster(facts)
