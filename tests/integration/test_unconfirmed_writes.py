"""A write that stays unknown is named as a cause, and nothing that depends on it is created."""

from __future__ import annotations

from typing import Any

import pytest

from controller.apimachinery.conditions import find_condition
from controller.kube.resources import (
    CLAIMS,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Resource,
)
from controller.ray.api import RAYCLUSTERS
from controller.testing.faults import ErrorResponse, Rule
from tests.integration.harness import World, example_cluster
from tests.integration.test_failing_keys import CREATE, begin
from tests.integration.turns import in_turn

CHILDREN = {
    "Service example-head-svc": SERVICES,
    "Service example-headless": SERVICES,
    "ServiceAccount example": SERVICE_ACCOUNTS,
    "Role example": ROLES,
    "RoleBinding example": ROLE_BINDINGS,
    "Secret example": SECRETS,
    "PersistentVolumeClaim example-gcs-pvc": CLAIMS,
}
"""What the pods of `with_every_child` depend on, as messages name it."""

pytestmark = [pytest.mark.slow, pytest.mark.embedded_only]


async def ready(world: World, resource: Resource[Any], condition: str = "Ready") -> dict[str, Any]:
    obj = await world.user.get(resource, world.namespace, "example")
    return dict(find_condition(obj.status.get("conditions", ()), condition) or {})


async def warnings(world: World, kind: str) -> list[tuple[str, str]]:
    path = f"/apis/events.k8s.io/v1/namespaces/{world.namespace}/events"
    listed = await world.user.request_json("GET", path)
    return [
        (event["reason"], event["note"])
        for event in listed["items"]
        if event["type"] == "Warning" and event["regarding"]["kind"] == kind
    ]


def with_every_child() -> dict[str, Any]:
    spec = example_cluster()["spec"]
    slices = spec["workerGroupSpecs"][0] | {"replicas": 1, "numOfHosts": 2}
    return {
        "enableInTreeAutoscaling": True,
        "authOptions": {"mode": "token"},
        "gcsFaultToleranceOptions": {"backend": "rocksdb"},
        "workerGroupSpecs": [slices],
    }


def refused(child: str, code: int) -> Rule:
    """Creating this child is refused, or its outcome stays unknown."""
    fault = ErrorResponse(code, "Forbidden" if code == 403 else "InternalError", "not now")
    name = child.split()[1]
    return Rule(fault, str(CHILDREN[child]), CREATE, name=name.__eq__)


@pytest.mark.parametrize(("child", "code"), in_turn(CHILDREN, [403, 500]))
async def test_no_pod_is_created_before_what_it_depends_on(world: World, child: str, code: int):
    rules = [refused(child, code)]
    operator = await begin(world, "cluster", rules=rules, **with_every_child())
    await world.settle(60)
    assert not world.journal.created
    found = await ready(world, RAYCLUSTERS)
    assert (found["status"], found["message"].startswith(child)) == ("False", True)
    operator.transport.rules = []
    await world.eventually(world.is_ready, seconds=90)


@pytest.mark.parametrize(("child", "code"), in_turn(CHILDREN, [403, 500]))
async def test_a_cluster_is_not_ready_while_a_child_is_missing(world: World, child: str, code: int):
    operator = await begin(world, "cluster", **with_every_child())
    await world.eventually(world.is_ready)
    operator.transport.rules = [refused(child, code)]
    await lose(world, child)
    await world.settle(2)
    workers = len(world.journal.workers())
    worker = world.journal.ready_workers()[0].metadata.name
    await world.user.delete(PODS, world.namespace, worker)
    await world.settle(60)
    assert len(world.journal.workers()) < workers, "it would wait in vain"
    found = await ready(world, RAYCLUSTERS)
    assert (found["status"], found["message"].startswith(child)) == ("False", True)


async def lose(world: World, child: str) -> None:
    """Delete a child, whatever protects it."""
    resource, name = CHILDREN[child], child.split()[1]
    await world.user.merge_patch(
        resource, world.namespace, name, {"metadata": {"finalizers": None}}
    )
    await world.user.delete(resource, world.namespace, name)
