"""How many pods come and which ones go."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.apimachinery.conditions import rfc3339
from controller.kube.objects import Pod
from controller.ray.api import labels
from controller.ray.api.raycluster import WorkerGroup
from controller.ray.cluster.observation import read_units
from controller.ray.cluster.plan import plan_cluster
from controller.ray.cluster.pods import unhealthy_reason
from controller.ray.cluster.rollout import RayView
from controller.ray.cluster.scale_down import pods_to_delete
from controller.ray.dashboard.client import RayNode
from controller.ray.dashboard.own_job import DrainNodes
from controller.ray.pods.hashes import template_digest
from controller.runtime.plan import Delete, MergePatch, Plan, Write
from tests.ray.cluster.support import NOW, pod, workers
from tests.ray.cluster.upgrade.rolling.scenes import (
    ADDRESS,
    answering,
    draining,
    new,
    observed,
    the_head,
    without_rolling,
)

WANTED = template_digest({"template": {}})
NEW, OLD = str(WANTED), "3-OLD"


def group(replicas: int, *named: str, **fields: Any) -> WorkerGroup:
    raw = {
        "groupName": "workers",
        "template": {},
        "replicas": replicas,
        "scaleStrategy": {"workersToDelete": list(named)},
    }
    return msgspec.convert(raw | fields, WorkerGroup)


def chosen(spec: WorkerGroup, pods: list[Pod], *, may_shrink: bool = True) -> list[str]:
    units = read_units(spec, pods)
    made = pods_to_delete(units, wanted=units.desired, wanted_hash=WANTED, may_shrink=may_shrink)
    return [victim.pod.metadata.name for victim in made]


def stamped(name: str, value: str, **more: Any) -> Pod:
    return pod(name, annotations={labels.TEMPLATE_HASH: value}, **more)


ORDERED = [
    pod("z-named"),
    pod("y-failed", phase="Failed", ready=False),
    pod("x-unscheduled", phase="Pending", ready=False, node=""),
    pod("w-pending", phase="Pending", ready=False),
    pod("v-not-ready", ready=False, created="2026-08-20T08:00:00Z"),
    stamped("u-outdated", OLD),
    stamped("t-newest", NEW, created="2026-08-20T09:30:00Z"),
    stamped("a-ready", NEW),
    stamped("b-ready", NEW),
    stamped("a-oldest", NEW, created="2026-08-20T07:00:00Z"),
]


@given(st.permutations(ORDERED), st.integers(0, len(ORDERED)))
def test_the_order_in_which_pods_go_is_fixed_whatever_the_cache_lists_first(
    pods: list[Pod], keep: int
):
    gone = chosen(group(keep, "z-named"), pods)
    forced = 2
    count = max(forced, len(ORDERED) - keep)
    assert gone == [p.metadata.name for p in ORDERED][:count]


states = st.builds(
    dict,
    phase=st.sampled_from(["Pending", "Running", "Failed", "Succeeded"]),
    ready=st.booleans(),
    node=st.sampled_from(["", "n"]),
    created=st.sampled_from(["2026-08-20T08:00:00Z", "2026-08-20T09:00:00Z"]),
    terminating=st.booleans(),
    annotations=st.sampled_from([None, {labels.TEMPLATE_HASH: OLD}, {labels.TEMPLATE_HASH: NEW}]),
)


@given(
    st.lists(states, max_size=12),
    st.integers(0, 12),
    st.sets(st.integers(0, 14), max_size=4),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_creations_and_deletions_never_overshoot(
    drawn: list[dict[str, Any]],
    replicas: int,
    named: set[int],
    may_shrink: bool,
    shuffler: random.Random,
):
    pods = [pod(f"p{i:02d}", **state) for i, state in enumerate(drawn)]
    spec = group(replicas, *(f"p{i:02d}" for i in named))
    gone = chosen(spec, pods, may_shrink=may_shrink)
    live = {p.metadata.name: p for p in pods if not p.metadata.terminating}
    called_for = {
        name
        for name, p in live.items()
        if int(name[1:]) in named or unhealthy_reason(p) is not None
    }

    assert len(gone) == len(set(gone))
    assert set(gone) <= set(live), "what is going already is not deleted again"
    assert called_for <= set(gone)
    unforced = len(gone) - len(called_for)
    if may_shrink:
        assert unforced == max(0, len(live) - len(called_for) - replicas)
    else:
        assert unforced == 0, "with autoscaling only named or ended pods go"
    assert not (unforced and len(pods) < replicas), "nothing goes while something is missing"

    shuffled = list(pods)
    shuffler.shuffle(shuffled)
    assert chosen(spec, shuffled, may_shrink=may_shrink) == gone


def test_a_suspended_group_loses_all_pods():
    assert len(chosen(group(3, suspend=True), workers(3))) == 3


ENDED = {"terminated": {"exitCode": 1}}
LOOPING = {"waiting": {"reason": "CrashLoopBackOff"}}


@pytest.mark.parametrize(
    "dead",
    [
        pod("a-dead", phase="Failed", created="2026-08-20T07:00:00Z"),
        pod("a-dead", phase="Succeeded", created="2026-08-20T07:00:00Z"),
        pod(
            "a-dead",
            created="2026-08-20T07:00:00Z",
            restart_policy="Never",
            containers=[{"name": "ray-worker", "state": ENDED}],
        ),
    ],
    ids=["failed", "succeeded", "ended and still called ready"],
)
@pytest.mark.parametrize("may_shrink", [True, False])
def test_the_dead_one_is_the_victim_of_a_scale_down(dead: Pod, may_shrink: bool):
    assert chosen(group(2), [*workers(2), dead], may_shrink=may_shrink) == ["a-dead"]
    assert chosen(group(3), [*workers(2), dead], may_shrink=may_shrink) == ["a-dead"]


@pytest.mark.parametrize(
    ("phase", "restart_policy", "container", "state", "unhealthy"),
    [
        ("Failed", "Always", "ray-worker", {}, True),
        ("Succeeded", "Always", "ray-worker", {}, True),
        ("Pending", "Never", "ray-worker", ENDED, False),
        ("Running", "Never", "ray-worker", {}, False),
        ("Running", "Never", "ray-worker", ENDED, True),
        ("Running", "Always", "ray-worker", ENDED, False),
        ("Running", "OnFailure", "ray-worker", ENDED, False),
        ("Running", "Never", "other", ENDED, False),
        ("Running", "Never", "ray-worker", LOOPING, False),
    ],
)
def test_which_pods_are_replaced(
    phase: str, restart_policy: str, container: str, state: dict[str, Any], unhealthy: bool
):
    containers = [{"name": container, "state": state}]
    made = pod("a", phase=phase, restart_policy=restart_policy, containers=containers)
    assert (unhealthy_reason(made) is not None) is unhealthy


def test_equal_pods_go_by_name():
    assert chosen(group(0), workers(3)[::-1]) == [p.metadata.name for p in workers(3)]


# -- what a surplus worker is told before it goes ------------------------------------------------


SERVES, SERVES_NOT = {labels.SERVE: "true"}, {labels.SERVE: "false"}


def planned(*pods: Pod, raw: dict[str, Any] | None = None, ray: RayView | None = None) -> Plan:
    """The plan for a cluster of a service, of which one worker is wanted."""
    changes = {} if ray is None else {"ray": ray}
    seen = observed(raw or without_rolling(1), *pods, **changes)
    return plan_cluster(seen, NOW)


def of_workers(plan: Plan) -> list[Write]:
    writes = [write for stage in plan.stages for write in stage]
    return [each for each in writes if each.target.name in {"a", "b"}]


def worker(name: str, **more: Any) -> Pod:
    return new(without_rolling(1), name, **more)


@pytest.fixture
def head() -> Pod:
    return the_head(without_rolling(1))


def test_a_surplus_worker_leaves_the_service_and_drains_in_one_write(head: Pod):
    plan = planned(head, worker("a", labels=SERVES), worker("b", labels=SERVES))
    (patch,) = of_workers(plan)
    assert isinstance(patch, MergePatch)
    assert patch.patch == {
        "metadata": {
            "labels": {labels.SERVE: "false"},
            "annotations": {labels.DRAINING_SINCE: rfc3339(NOW)},
        }
    }
    assert patch.on_success is not None
    assert "before its deletion" in patch.on_success.note


def test_ray_drains_its_node_and_lets_its_proxy_close_connections(head: Pod):
    leaving = worker("b", labels=SERVES_NOT, annotations=draining(10))
    ray = answering(RayNode("n1", ADDRESS, alive=True))
    plan = planned(head, worker("a", labels=SERVES), leaving, ray=ray)
    assert not of_workers(plan), "nothing goes before the node has left"
    (command,) = (each.command for each in plan.commands)
    assert isinstance(command, DrainNodes)
    assert command.serving


def test_it_is_deleted_after_five_minutes_whatever_ray_says(head: Pod):
    leaving = worker("b", labels=SERVES_NOT, annotations=draining(300))
    ray = answering(RayNode("n1", ADDRESS, alive=True))
    (deletion,) = of_workers(planned(head, worker("a", labels=SERVES), leaving, ray=ray))
    assert isinstance(deletion, Delete)


def test_without_a_ready_head_nothing_could_drain_it():
    head = the_head(without_rolling(1), ready=False)
    plan = planned(head, worker("a", labels=SERVES), worker("b", labels=SERVES))
    assert [type(each) for each in of_workers(plan)] == [Delete]


def test_what_the_autoscaler_names_is_deleted_at_once(head: Pod):
    raw = without_rolling(1)
    raw["spec"]["workerGroupSpecs"][0]["scaleStrategy"] = {"workersToDelete": ["b"]}
    plan = planned(head, worker("a", labels=SERVES), worker("b", labels=SERVES), raw=raw)
    (deletion,) = of_workers(plan)
    assert isinstance(deletion, Delete)
    assert deletion.target.name == "b"
