"""A surplus worker that serves requests is drained; all others are deleted at once."""

from __future__ import annotations

from typing import Any

import pytest

from controller.apimachinery.conditions import rfc3339
from controller.kube.objects import Pod
from controller.ray.api import labels
from controller.ray.cluster.plan import plan_cluster
from controller.ray.cluster.ray_view import RayView
from controller.ray.cluster.rollout import DRAINED
from controller.ray.dashboard import DrainNodes, RayNode
from controller.runtime.plan import Delete, MergePatch, Plan, Write
from tests.ray.cluster.support import NOW
from tests.ray.cluster.upgrade.rolling.scenes import (
    ADDRESS,
    answering,
    draining,
    new,
    observed,
    the_head,
    without_rolling,
)

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


def test_it_is_deleted_when_its_node_has_left(head: Pod):
    leaving = worker("b", labels=SERVES_NOT, annotations=draining(10))
    ray = answering(RayNode("n1", ADDRESS, alive=False))
    (deletion,) = of_workers(planned(head, worker("a", labels=SERVES), leaving, ray=ray))
    assert isinstance(deletion, Delete)
    assert deletion.target.name == "b"
    assert deletion.on_success is not None
    assert deletion.on_success.note.endswith(DRAINED)


def test_it_is_deleted_after_five_minutes_whatever_ray_says(head: Pod):
    leaving = worker("b", labels=SERVES_NOT, annotations=draining(300))
    ray = answering(RayNode("n1", ADDRESS, alive=True))
    (deletion,) = of_workers(planned(head, worker("a", labels=SERVES), leaving, ray=ray))
    assert isinstance(deletion, Delete)


@pytest.mark.parametrize(
    "more",
    [{}, {"labels": SERVES_NOT}, {"labels": SERVES, "ready": False}],
    ids=["of no service", "not admitted", "not ready"],
)
def test_a_worker_that_serves_nothing_is_deleted_at_once(more: dict[str, Any], head: Pod):
    plan = planned(head, worker("a", **more), worker("b", **more))
    assert [type(each) for each in of_workers(plan)] == [Delete]


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
