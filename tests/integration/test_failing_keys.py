"""What fails for long costs few requests and is named, and nothing that needs it is created."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from controller.apimachinery.conditions import find_condition
from controller.kaito.api.definitions import kaito_definitions
from controller.kaito.api.inferenceset import INFERENCE_SETS
from controller.kaito.api.karpenter import NODE_CLAIMS
from controller.kaito.api.workspace import WORKSPACES
from controller.kube.resources import (
    CLAIMS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    STATEFUL_SETS,
    Resource,
)
from controller.ray.api import RAYCLUSTERS, FeatureGates
from controller.ray.api.rayclusterfleet import RAYCLUSTERFLEETS
from controller.ray.api.raycronjob import RAYCRONJOBS
from controller.ray.api.rayjob import RAYJOBS
from controller.ray.api.rayservice import RAYSERVICES
from controller.testing.faults import ErrorResponse, LostRequest, Rule
from tests.integration.fleets import fleet_manifest
from tests.integration.harness import RunningOperator, World, example_cluster, install_crds
from tests.integration.inferencesets import set_manifest
from tests.integration.rays import Rays, job_manifest
from tests.integration.rayservices import service_manifest
from tests.integration.test_all_kinds import cron_job, start
from tests.integration.turns import in_turn
from tests.integration.workspaces import Workspaces, provisioned
from tests.integration.workspaces import manifest as workspace_manifest

TEN_MINUTES = 600.0
MOST = 60
"""Requests of a failing object in ten minutes."""

CREATE = frozenset({"create"})
TRACE = "request 7f3a{n}-00c1 from 10.0.3.{n}:{n} at 2026-01-01T00:00:{n}Z"
SORTS = {
    "forbidden": ErrorResponse(403, "Forbidden", f"not by policy: {TRACE}"),
    "invalid": ErrorResponse(422, "Invalid", f"spec.x: Invalid value: {TRACE}"),
    "failing": ErrorResponse(500, "InternalError", f"etcd said no, {TRACE}"),
    "overloaded": ErrorResponse(429, "TooManyRequests", f"try again, {TRACE}"),
    "lost": LostRequest(),
}


class Failing(NamedTuple):
    """An object, and the objects created for it that fail.

    Attributes:
        creates: the resource of what is created for it.
        body: of the object, which has the name `example`.
        condition: the one that names the failure.
    """

    resource: Resource[Any]
    creates: str
    body: dict[str, Any]
    condition: str = "Ready"


CLUSTERS = str(RAYCLUSTERS)
KINDS = {
    "cluster": Failing(RAYCLUSTERS, "pods", example_cluster()),
    "job": Failing(RAYJOBS, CLUSTERS, job_manifest("example")),
    "service": Failing(RAYSERVICES, CLUSTERS, service_manifest("example")),
    "cron": Failing(RAYCRONJOBS, str(RAYJOBS), cron_job("example", "*/5 * * * *")),
    "fleet": Failing(RAYCLUSTERFLEETS, CLUSTERS, fleet_manifest("example")),
    "nodes": Failing(WORKSPACES, str(NODE_CLAIMS), workspace_manifest("example"), "ResourceReady"),
    "workspace": Failing(
        WORKSPACES, str(STATEFUL_SETS), workspace_manifest("example"), "InferenceReady"
    ),
    "set": Failing(INFERENCE_SETS, str(WORKSPACES), set_manifest("example"), "InferenceSetReady"),
}
GATES = FeatureGates({"RayCronJob": True, "RayClusterFleet": True, "Workspace": True})

pytestmark = [pytest.mark.slow, pytest.mark.embedded_only]


async def begin(
    world: World, kind: str, *, rules: Sequence[Rule] = (), **spec: Any
) -> RunningOperator:
    rays = Rays(world)
    await rays.open()
    failing = KINDS[kind]
    if failing.resource in {WORKSPACES, INFERENCE_SETS}:
        await install_crds(world, *kaito_definitions())
        spaces = Workspaces(world)
        await spaces.install()
        world.background(provisioned(spaces))
    operator = start(rays, GATES)
    operator.transport.rules = list(rules)
    changed = {"spec": failing.body["spec"] | spec} if spec else {}
    await world.user.create(failing.resource, world.namespace, failing.body | changed)
    return operator


def requests(operator: RunningOperator, since: int = 0) -> list[str]:
    """What the operator asked about objects, without what fills its caches."""
    asked = [entry.attributes for entry in operator.transport.journal.entries[since:]]
    about = [each for each in asked if each.resource and each.verb not in {"list", "watch"}]
    return [f"{each.verb} {each.resource}" for each in about]


async def test_ten_failing_children_cost_no_more_requests_than_one(world: World):
    operator = await begin(world, "cluster", enableInTreeAutoscaling=True)
    operator.transport.rules = [Rule(SORTS["forbidden"], "", CREATE)]
    await world.settle(5)
    since = len(operator.transport.journal.entries)
    await world.settle(TEN_MINUTES)
    asked = requests(operator, since)
    assert len(asked) <= MOST
    created = {each for each in asked if each.startswith("create")}
    assert {"create services", "create serviceaccounts"} <= created, "all take turns"

    operator.transport.rules = []
    await world.eventually(world.is_ready, seconds=60)


async def at_most_sixty_requests(world: World, operator: RunningOperator, since: int) -> None:
    """In the first seconds, and then in ten minutes."""
    for seconds in (5, TEN_MINUTES):
        await world.settle(seconds)
        assert len(requests(operator, since)) <= MOST
        since = len(operator.transport.journal.entries)


async def grow(world: World, replicas: int) -> None:
    """Have so many workers, whatever the largest number was."""
    path = "/spec/workerGroupSpecs/0/maxReplicas"
    patch = [{"op": "replace", "path": path, "value": replicas}]
    await world.user.json_patch(RAYCLUSTERS, world.namespace, "example", patch)
    await world.scale(replicas)


async def has_workers(world: World, replicas: int) -> None:
    await world.eventually(lambda: len(world.journal.ready_workers()) == replicas, seconds=60)


@pytest.mark.parametrize("sort", ["forbidden", "failing", "lost"])
async def test_dozens_of_deletes_that_fail_cost_no_more_requests_than_one(world: World, sort: str):
    operator = await begin(world, "cluster")
    await grow(world, 24)
    await has_workers(world, 24)
    operator.transport.rules = [Rule(SORTS[sort], "pods", frozenset({"delete"}))]
    since = len(operator.transport.journal.entries)
    await world.scale(0)
    await at_most_sixty_requests(world, operator, since)
    operator.transport.rules = []
    await has_workers(world, 0)


async def test_one_pod_that_must_not_be_deleted_keeps_no_other(world: World):
    operator = await begin(world, "cluster")
    await grow(world, 24)
    await has_workers(world, 24)
    kept = max(pod.metadata.name for pod in world.journal.workers())
    protect = Rule(SORTS["forbidden"], "pods", frozenset({"delete"}), name=kept.__eq__)
    operator.transport.rules = [protect]
    await world.scale(0)
    await world.settle(30)
    assert [pod.metadata.name for pod in world.journal.workers()] == [kept]


async def test_dozens_of_creates_that_stay_unknown_cost_no_more_requests_than_one(world: World):
    operator = await begin(world, "cluster")
    await has_workers(world, 2)
    operator.transport.rules = [Rule(LostRequest(), "pods", CREATE, skip=7)]
    since = len(operator.transport.journal.entries)
    await grow(world, 40)
    await at_most_sixty_requests(world, operator, since)
    operator.transport.rules = []
    await has_workers(world, 40)


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
