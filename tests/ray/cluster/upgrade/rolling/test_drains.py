"""Whose turn it is, which pods begin to drain, and what Ray is told and asked about them."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.apimachinery.conditions import find_condition, rfc3339
from controller.kube.objects import Pod
from controller.kube.resources import PODS
from controller.ray.api import labels
from controller.ray.cluster.observation import ClusterObservation, PodHistory
from controller.ray.cluster.plan import plan_cluster, ray_subscriptions
from controller.ray.cluster.rolling_units import drain_writes, with_ray
from controller.ray.cluster.rollout import RayView
from controller.ray.dashboard.client import RayNode
from controller.ray.dashboard.commands import HeadCommand
from controller.ray.dashboard.own_job import DrainNodes
from controller.ray.head import HEAD_SCOPE, worker_scope
from controller.runtime.plan import Delete, Lookup, MergePatch, Plan, Target, Write
from tests.ray.cluster.support import NOW
from tests.ray.cluster.upgrade.rolling.scenes import (
    ADDRESS,
    HEAD,
    answering,
    draining,
    new,
    observed,
    old,
    rolled_out,
    rolling,
    the_head,
    with_begun,
)

ALIVE = RayNode("n1", ADDRESS, alive=True)


def seen_with(*workers: Pod, ray: RayView | None = None, **changes: Any) -> ClusterObservation:
    raw = changes.pop("raw", None) or rolling(1, maxUnavailable=1, drainTimeoutSeconds=100)
    view = answering(ALIVE) if ray is None else ray
    seen = observed(raw, the_head(raw), *workers, ray=view, **changes)
    return rolled_out(with_begun(seen, "workers"))


def patches(seen: ClusterObservation) -> list[Write]:
    return list(drain_writes(seen))


def told(plan: Plan) -> DrainNodes:
    (command,) = plan.commands
    assert isinstance(command, HeadCommand)
    assert isinstance(command.command, DrainNodes)
    return command.command


PLAN = Plan(memory=PodHistory())
LEAVING = old("a", annotations=draining(10))


def test_the_time_of_a_drain_stands_on_the_pod_before_ray_is_told():
    seen = seen_with(old("a"))
    (patch,) = patches(seen)
    assert isinstance(patch, MergePatch)
    assert list(patch.patch["metadata"]["annotations"]) == [labels.DRAINING_SINCE]
    assert with_ray(Plan(), seen).commands == ()


def test_a_drain_that_has_begun_in_the_future_begins_now_and_no_event_says_so():
    leaving = old("a", annotations=draining(-36000))
    (patch,) = patches(seen_with(leaving))
    assert isinstance(patch, MergePatch)
    assert patch.patch["metadata"]["annotations"] == {labels.DRAINING_SINCE: rfc3339(NOW)}
    assert patch.on_success is None
    pending = frozenset({worker_scope("workers")})
    assert patches(seen_with(leaving, pending_scopes=pending)) == []
    assert patches(seen_with(old("a", annotations=draining(0)))) == []


def test_no_drain_is_written_while_a_write_of_the_group_has_no_outcome():
    pending = frozenset({worker_scope("workers")})
    assert patches(seen_with(old("a"), pending_scopes=pending)) == []


def test_ray_is_not_asked_while_an_update_is_paused_unless_pods_are_draining():
    raw = rolling(2, paused=True)
    assert ray_subscriptions(seen_with(old("a"), old("b"), raw=raw)) == ()
    assert len(ray_subscriptions(seen_with(LEAVING, old("b"), raw=raw))) == 2


THE_HEAD = Target(PODS, "default", HEAD, HEAD_SCOPE)


@pytest.mark.parametrize(
    "plan",
    [
        replace(PLAN, commit=MergePatch(THE_HEAD, "", {})),
        replace(PLAN, lookups=(Lookup(THE_HEAD),)),
    ],
    ids=["finalizer", "lookup"],
)
def test_ray_is_told_nothing_by_a_plan_that_has_to_read_or_write_something_first(plan: Plan):
    assert with_ray(plan, seen_with(LEAVING)).commands == ()


@pytest.mark.parametrize(
    "nodes", [(), (RayNode("n1", ADDRESS, alive=False),)], ids=["none", "dead"]
)
def test_ray_is_told_of_living_nodes_only(nodes: tuple[RayNode, ...]):
    assert with_ray(Plan(), seen_with(LEAVING, ray=answering(*nodes))).commands == ()


UNDRAINED: dict[str, Any] = {"maxSurge": 0, "maxUnavailable": 1, "drainTimeoutSeconds": 0}


def scene(*groups: int, **settings: Any) -> ClusterObservation:
    raw = rolling(*groups, **(UNDRAINED | settings))
    pods = (old(f"p{n}", group=each["groupName"])
            for n, each in enumerate(raw["spec"]["workerGroupSpecs"]))  # fmt: skip
    return observed(raw, the_head(raw), *pods)


def recorded(seen: ClusterObservation) -> str:
    """The names that the status records after the present plan."""
    status = plan_cluster(seen, NOW).status
    assert status is not None
    found = find_condition(status.wanted["conditions"], "GroupsUpgrading") or {}
    assert found.get("status") in {"True", None}
    return found.get("message", "")


def deletes(seen: ClusterObservation) -> bool:
    stages = plan_cluster(seen, NOW).stages
    return any(isinstance(write, Delete) for stage in stages for write in stage)


def test_a_turn_is_recorded_before_the_first_pod_goes():
    assert recorded(scene(1)) == "workers"
    assert not deletes(scene(1))
    assert recorded(with_begun(scene(1), "workers")) == "workers"
    assert deletes(with_begun(scene(1), "workers"))


def test_the_turns_of_several_groups_are_recorded_together():
    both = scene(1, 1, maxParallelGroups=2)
    assert recorded(both) == "workers, workers-1"
    assert recorded(with_begun(both, "workers")) == "workers, workers-1"


def test_a_turn_that_has_ended_is_recorded_no_longer():
    assert recorded(with_begun(scene(1, 1), "workers")) == "workers"
    raw = rolling(1, 1, **UNDRAINED)
    pods = the_head(raw), new(raw, "a"), old("b", group="workers-1")
    assert recorded(with_begun(observed(raw, *pods), "workers")) == "workers-1"
    ready = observed(raw, the_head(raw), new(raw, "a"), new(raw, "b", group=1))
    assert not recorded(with_begun(ready, "workers"))
