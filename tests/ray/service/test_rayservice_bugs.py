"""Bugs of RayServices that the plan alone shows not to be here, by number."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from controller.ray.api import labels
from controller.ray.api.raycluster import RAYCLUSTERS
from controller.ray.api.rayservice import UpgradeType
from controller.ray.children.child_cluster import in_place_operations
from controller.ray.dashboard.serve import ServeState
from controller.ray.service.clusters import cluster_body
from controller.ray.service.facts import collect_facts
from controller.ray.service.rollout import (
    FULL,
    Change,
    ClusterFacts,
    GoalCluster,
    Options,
    RolloutFacts,
    RolloutStep,
    RolloutWait,
    SelectedCluster,
    SetPendingCapacity,
    SetPendingWeight,
    Shares,
    next_step,
)
from controller.ray.service.serve import put_configs
from controller.ray.service.status import transition_patch
from tests.integration.rayservices import serve_config
from tests.ray.service.rollout.world import Cluster, Rules, World, calm_successor
from tests.ray.service.scenes import (
    ACTIVE,
    NEW,
    OLD,
    PENDING,
    STEPWISE,
    THIRD,
    Scene,
    edition,
    serving,
)

OLD_CONFIG = serve_config("old", replicas=2)
NEW_CONFIG = serve_config("new", replicas=4) + "    ray_actor_options: {num_cpus: 0.5}\n"
ROLLBACK = ("UpgradeInProgress", "RollbackInProgress")


def puts(scene: Scene) -> dict[str, dict[str, Any]]:
    """The body that the dashboard of each cluster is sent."""
    return {
        each.head.cluster_uid: json.loads(each.command.body)
        for each in put_configs(scene.observe())
    }


def step_of(scene: Scene) -> RolloutStep:
    return next_step(collect_facts(scene.observe()))


@pytest.mark.parametrize("capacity", range(0, 101, 20))
def test_at_every_capacity_the_active_cluster_gets_its_own_config(capacity: int):
    new = edition(NEW, NEW_CONFIG, upgradeStrategy=STEPWISE)
    scene = Scene(new, "UpgradeInProgress")
    active = scene.has(ACTIVE, edition(OLD, OLD_CONFIG), targetCapacity=capacity)
    pending = scene.has(PENDING, new, targetCapacity=120 - capacity if capacity > 20 else FULL)
    served = json.loads(json.dumps(scene.observe().active.config.body))
    for cluster in (active, pending):
        scene.states[cluster.metadata.uid] = serving(cluster, FULL, 33)
    bodies = puts(scene)
    assert bodies[active.metadata.uid] == {**served, "target_capacity": capacity}
    deployment = bodies[pending.metadata.uid]["applications"][0]["deployments"][0]
    assert (deployment["num_replicas"], deployment["user_config"]) == (4, {"greeting": "new"})


def test_after_an_upgrade_ray_is_left_without_a_capacity_so_that_deployments_scale_to_zero():
    """Ray's issue 62682: after a rise to 100 it goes no lower than `initial_replicas`."""
    wanted = edition(NEW, NEW_CONFIG, upgradeStrategy=STEPWISE)
    scene = Scene(wanted)
    active = scene.has(ACTIVE, wanted)
    stored = active.metadata.annotations
    stored[labels.SERVE_CONFIG_APPLIED] = stored[labels.SERVE_CONFIG_HASH]
    scene.states[active.metadata.uid] = serving(active, FULL, FULL)  # as the last step left it
    body = puts(scene)[active.metadata.uid]
    assert "target_capacity" not in body
    assert body["applications"]
    scene.states[active.metadata.uid] = serving(active, FULL, None)
    assert puts(scene) == {}


@pytest.mark.parametrize("conditions", [ROLLBACK, ROLLBACK[:1]], ids=["rolling back", "before"])
def test_an_operator_started_in_mid_rollback_sends_no_third_config(conditions: tuple[str, ...]):
    scene = Scene(edition(THIRD, upgradeStrategy=STEPWISE), *conditions)
    active = scene.has(ACTIVE, edition(OLD), targetCapacity=60, trafficRoutedPercent=60)
    pending = scene.has(PENDING, edition(NEW), targetCapacity=60, trafficRoutedPercent=40)
    for cluster in (active, pending):
        scene.states[cluster.metadata.uid] = serving(cluster, FULL, 80)
    greetings = {
        uid: body["applications"][0]["deployments"][0]["user_config"]["greeting"]
        for uid, body in puts(scene).items()
    }
    assert greetings == {active.metadata.uid: "2.52.0", pending.metadata.uid: "2.53.0"}
    writes = [write for stage in scene.plan().stages for write in stage]
    assert [write for write in writes if write.target.resource is RAYCLUSTERS] == []


def test_a_rollback_does_not_wait_for_numbers_that_the_status_lacks():
    scene = Scene(edition(OLD, upgradeStrategy=STEPWISE), *ROLLBACK)
    scene.has(ACTIVE, edition(OLD))
    scene.has(PENDING, edition(NEW), targetCapacity=20)
    assert step_of(scene) == SetPendingCapacity(0)


ROLLING_BACK = RolloutFacts(
    goal=GoalCluster.ACTIVE,
    active=ClusterFacts(recorded=True, exists=True, has_head=True, ready=60, serves=True),
    pending=ClusterFacts(recorded=True, exists=True, has_head=True, ready=60, serves=True),
    incremental=True,
    rolling_back=True,
    options=Options(surge=20, step=20),
    shares=Shares(active_capacity=60, pending_capacity=60, pending_weight=60),
    selection=SelectedCluster.ACTIVE,
)


def test_a_rollback_ends_though_the_head_of_the_pending_cluster_is_dead():
    facts = replace(
        ROLLING_BACK,
        active=replace(ROLLING_BACK.active, ready=FULL),
        pending=ClusterFacts(recorded=True, exists=True),
        shares=Shares(active_capacity=FULL, pending_capacity=20, pending_weight=0),
    )
    assert next_step(facts) is Change.DROP_PENDING


@pytest.mark.parametrize("change", [Change.PROMOTE, Change.DROP_PENDING, Change.RESUME_UPGRADE])
def test_whatever_ends_a_rollback_clears_its_condition_in_the_same_write(change: Change):
    scene = Scene(edition(OLD, upgradeStrategy=STEPWISE), *ROLLBACK)
    scene.has(ACTIVE, edition(OLD), targetCapacity=100, trafficRoutedPercent=100)
    scene.has(PENDING, edition(NEW), targetCapacity=0, trafficRoutedPercent=0)
    seen = scene.observe()
    patch = transition_patch(seen, collect_facts(seen), change)
    conditions = {each["type"] for each in patch.patch["status"]["conditions"]}
    assert conditions == {"UpgradeInProgress"}


@pytest.mark.parametrize(
    ("ready", "step"),
    [
        (None, RolloutWait.PENDING_CAPACITY),
        (0, SetPendingWeight(0)),
        (20, RolloutWait.PENDING_CAPACITY),
        (30, SetPendingWeight(30)),
        (40, SetPendingWeight(40)),
    ],
)
def test_no_more_traffic_moves_than_there_are_ready_replicas(ready: int | None, step: RolloutStep):
    facts = replace(
        ROLLING_BACK,
        goal=GoalCluster.PENDING,
        rolling_back=False,
        active=replace(ROLLING_BACK.active, ready=80),
        pending=replace(ROLLING_BACK.pending, ready=ready),
        shares=Shares(active_capacity=80, pending_capacity=40, pending_weight=20),
    )
    assert next_step(facts) == step


@pytest.mark.parametrize("state", [ServeState(), None], ids=["nothing is listed", "no answer"])
def test_services_stay_where_they_are_while_serve_has_not_started(state: ServeState | None):
    scene = Scene(edition(NEW), "UpgradeInProgress")
    active = scene.has(ACTIVE, edition(OLD))
    uid = scene.has(PENDING, edition(NEW)).metadata.uid
    if state is None:
        del scene.states[uid]
    else:
        scene.states[uid] = state
    assert step_of(scene) is RolloutWait.PENDING_TO_SERVE
    children = [child for child, _ in scene.observe().children]
    selected = {child.body["spec"]["selector"]["ray.io/cluster"] for child in children}
    assert selected == {active.metadata.name}


@pytest.mark.parametrize("has_head", [True, False])
@pytest.mark.parametrize("role", ["active", "pending"])
def test_however_long_a_cluster_takes_no_other_is_made(role: str, has_head: bool):
    slow = ClusterFacts(recorded=True, exists=True, has_head=has_head)
    goal = GoalCluster.ACTIVE if role == "active" else GoalCluster.PENDING
    facts = replace(RolloutFacts(goal=goal), **{role: slow})
    assert isinstance(next_step(facts), RolloutWait)


@pytest.mark.parametrize("autoscaled", [False, True])
def test_new_bounds_reach_the_running_cluster(autoscaled: bool):
    old = edition(OLD)
    wanted = edition(OLD)
    for each in (old, wanted):
        each["spec"]["rayClusterConfig"]["enableInTreeAutoscaling"] = autoscaled
    group = wanted["spec"]["rayClusterConfig"]["workerGroupSpecs"][0]
    group |= {"replicas": 2, "minReplicas": 2, "maxReplicas": 7}
    cluster = Scene(wanted).has(ACTIVE, old)
    operations = in_place_operations(cluster, wanted["spec"]["rayClusterConfig"])
    changed = {each["path"].rpartition("/")[2]: each["value"] for each in operations[1:]}
    bounds = {"minReplicas": 2, "maxReplicas": 7}
    assert changed == (bounds if autoscaled else bounds | {"replicas": 2})
    assert operations[0]["op"] == "test"


def test_an_upgrade_needs_no_more_than_the_surge_besides():
    rules = Rules((UpgradeType.INCREMENTAL,), Options(surge=20, step=20))
    world = World(
        UpgradeType.INCREMENTAL, "B", Cluster("A", FULL), selection=SelectedCluster.ACTIVE
    )
    peak = 0
    while world != (after := calm_successor(world, rules)):
        world = after
        if world.incremental:
            shares = world.shares
            peak = max(peak, shares.active_capacity + shares.pending_capacity)
    assert world.active == Cluster("A", FULL)  # the new one, by its canonical name
    assert peak == 120


def test_the_pending_cluster_begins_with_its_least_workers():
    wanted = edition(NEW, upgradeStrategy=STEPWISE)
    seen = Scene(wanted).observe()
    body = cluster_body(seen.service, seen.valid_goal, "svc-bbbbb", from_least=True)
    (group,) = body["spec"]["workerGroupSpecs"]
    assert (group.get("replicas"), group["minReplicas"]) == (None, 1)
