"""A write that stays unknown is named as a cause, and nothing that depends on it is created."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from controller.apimachinery.conditions import find_condition
from controller.kube.resources import PODS, SERVICES
from controller.ray.api import RAYCLUSTERS, RAYJOBS
from controller.ray.api.raycronjob import RAYCRONJOBS
from tests.faults.faulty_transport import ErrorResponse, LostRequest, Rule
from tests.integration.test_failing_keys import CREATE, KINDS, begin

if TYPE_CHECKING:
    from controller.kube.resources import Resource
    from tests.integration.harness import World

WEBHOOK = ErrorResponse(
    500,
    "InternalError",
    'Internal error occurred: failed calling webhook "inject.example.com": failed to call webhook: '
    'Post "https://inject.ns.svc:443/x?timeout=10s": dial tcp 10.0.0.{n}:443: connection refused',
)
BROKEN = ErrorResponse(500, "InternalError", "etcdserver: no space")
REASONS = dict.fromkeys(KINDS, "AdmissionUnavailable") | {
    "service": "Initializing",  # programs switch over the reasons of RayServices
    "set": "inferencesetFailed",
}
EVENTS = {
    "cluster": "FailedToCreateHeadPod",
    "job": "FailedToCreateRayCluster",
    "service": "FailedToCreateRayCluster",
    "cron": "FailedToCreateRayJob",
    "fleet": "FailedToCreateRayCluster",
    "nodes": "NodeClaimCreationFailed",
    "workspace": "FailedToCreateStatefulSet",
    "set": "InferenceSetFailed",
}
CHILDREN = {
    "services": "Service example-head-svc",
    "serviceaccounts": "ServiceAccount example",
    "roles.rbac.authorization.k8s.io": "Role example",
    "rolebindings.rbac.authorization.k8s.io": "RoleBinding example",
    "secrets": "Secret example",
}

pytestmark = pytest.mark.embedded_only


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


@pytest.mark.parametrize("kind", KINDS)
async def test_a_failing_webhook_is_named_with_an_event(world: World, kind: str):
    failing = KINDS[kind]
    resource = failing.resource
    schedule = {"schedule": "* * * * *"} if kind == "cron" else {}
    rules = [Rule(WEBHOOK, failing.creates, CREATE)]
    operator = await begin(world, kind, rules=rules, **schedule)
    await world.settle(90 if kind == "cron" else 30)
    found = await ready(world, resource, failing.condition)
    assert (found["status"], found["reason"]) == ("False", REASONS[kind])
    assert 'failed calling webhook "inject.example.com"' in found["message"]
    await world.settle(30)
    (told,) = await warnings(world, resource.kind)
    assert told[0] == EVENTS[kind]
    assert "inject.example.com" in told[1]

    operator.transport.rules = []

    async def cured() -> bool:
        condition = await ready(world, resource, failing.condition)
        return "inject.example.com" not in condition.get("message", "")

    await world.eventually(cured, seconds=60)


@pytest.mark.parametrize("fault", [BROKEN, LostRequest()])
@pytest.mark.parametrize(
    ("resource", "creates"),
    [(RAYCLUSTERS, "pods"), (RAYJOBS, "rayclusters.ray.io"), (RAYCRONJOBS, "rayjobs.ray.io")],
)
async def test_what_stays_unknown_is_named_with_the_servers_words(
    world: World, resource: Resource[Any], creates: str, fault: Any
):
    kind = next(kind for kind in KINDS if KINDS[kind].resource is resource)
    schedule = {"schedule": "* * * * *"} if kind == "cron" else {}
    operator = await begin(world, kind, **schedule)
    operator.transport.rules = [Rule(fault, creates, CREATE)]
    await world.settle(110 if kind == "cron" else 30)
    found = await ready(world, resource)
    assert (found["status"], found["reason"]) == ("False", "WriteUnconfirmed")
    words = "no space" if fault is BROKEN else "connection reset"
    assert words in found["message"]
    assert len(await warnings(world, resource.kind)) == 1


@pytest.mark.parametrize("code", [403, 500])
@pytest.mark.parametrize("creates", CHILDREN)
async def test_no_pod_is_created_before_what_it_depends_on(world: World, creates: str, code: int):
    fault = ErrorResponse(code, "Forbidden" if code == 403 else "InternalError", "not now")
    spec = {"enableInTreeAutoscaling": True, "authOptions": {"mode": "token"}}
    operator = await begin(world, "cluster", rules=[Rule(fault, creates, CREATE)], **spec)
    await world.settle(60)
    assert not world.journal.created
    assert (await ready(world, RAYCLUSTERS))["message"].startswith(CHILDREN[creates])
    operator.transport.rules = []
    await world.eventually(world.is_ready, seconds=90)


@pytest.mark.parametrize("code", [403, 500])
async def test_a_cluster_is_not_ready_while_its_service_is_missing(world: World, code: int):
    operator = await begin(world, "cluster")
    await world.eventually(world.is_ready)
    fault = ErrorResponse(code, "Forbidden" if code == 403 else "InternalError", "not now")
    operator.transport.rules = [Rule(fault, "services", CREATE)]
    await world.user.delete(SERVICES, world.namespace, "example-head-svc")
    await world.settle(2)
    worker = world.journal.ready_workers()[0].metadata.name
    await world.user.delete(PODS, world.namespace, worker)
    await world.settle(60)
    assert len(world.journal.workers()) == 1, "it would wait for the service in vain"
    found = await ready(world, RAYCLUSTERS)
    assert found["status"] == "False"
    assert "Service example-head-svc" in found["message"]
