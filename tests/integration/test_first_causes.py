"""A cluster that is not ready says why: in its condition, by one event, until it is cured."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from controller.devcluster.apiserver.messages import (
    ApiRequest,
    ApiResponse,
    ResourcePath,
    bytes_response,
)
from controller.kube.objects import KubeObject
from controller.kube.resources import EVENTS, NODES, PODS, Resource
from controller.ray.api import RAYCLUSTERS
from controller.testing.faults import ErrorResponse, LostRequest, Refused, Rule
from tests.integration.harness import REAL_KUBECONFIG, World, example_cluster, role

QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota", KubeObject)
CREATE = frozenset({"create"})
LONG_ENOUGH = 3.0 if REAL_KUBECONFIG else 30.0
"""Seconds in which the same cause would be told again, if it were."""
CLUSTER_READY = ("Normal", "RayClusterReady")
WEBHOOK = (
    'admission webhook "validate.policies.example.com" denied the request: every pod needs a team'
)
RIGHT = (
    'pods is forbidden: User "system:serviceaccount:manta:manta-operator" cannot create resource '
    '"pods" in API group "" in the namespace "default"'
)


class Told(NamedTuple):
    """An event about the cluster, without what the pods' creation and deletion make."""

    type: str
    reason: str
    note: str


async def told(world: World) -> list[Told]:
    listed = await world.user.request_json("GET", _path(world, "events"))
    events = [
        Told(event["type"], event["reason"], event["note"])
        for event in listed["items"]
        if event["regarding"]["kind"] == "RayCluster"
    ]
    return [each for each in events if each.type == "Warning" or each[:2] == CLUSTER_READY]


def _path(world: World, plural: str) -> str:
    return f"/apis/{EVENTS.api_version}/namespaces/{world.namespace}/{plural}"


async def warned(world: World, reason: str, *words: str) -> None:
    """Whether exactly one warning was told, and says all of this."""
    await world.settle(LONG_ENOUGH)
    warnings = [each for each in await told(world) if each.type == "Warning"]
    assert [each.reason for each in warnings] == [reason]
    assert all(word in warnings[0].note for word in words), warnings[0].note


async def cured(world: World) -> None:
    """Whether the cluster becomes ready, tells so once, and warns no more."""
    warnings = len([each for each in await told(world) if each.type == "Warning"])
    await world.becomes(
        world.condition, lambda found: found["status"] == "True", seconds=700, pause=1.0
    )
    await world.settle(LONG_ENOUGH)
    events = await told(world)
    assert sum(each[:2] == CLUSTER_READY for each in events) == 1
    assert sum(each.type == "Warning" for each in events) == warnings


async def create(world: World, *, replicas: int = 2, **annotations: str) -> None:
    """A cluster whose workers do what these annotations of the simulated kubelet say."""
    body = example_cluster(replicas=replicas)
    template = body["spec"]["workerGroupSpecs"][0]["template"]
    given = {f"sim.manta.dev/{key}": value for key, value in annotations.items()}
    template.setdefault("metadata", {})["annotations"] = given
    await world.user.create(RAYCLUSTERS, world.namespace, body)


async def correct_workers(world: World) -> None:
    """Take the annotations away and have the pods that still carry them replaced."""
    path = "/spec/workerGroupSpecs/0/template/metadata/annotations"
    operations = [{"op": "replace", "path": path, "value": {}}]
    await world.user.json_patch(RAYCLUSTERS, world.namespace, "example", operations)
    for pod in world.journal.workers():
        await world.user.delete(PODS, world.namespace, pod.metadata.name)


@pytest.mark.embedded_only
async def test_an_image_that_cannot_be_pulled(world: World):
    world.start_operator()
    await create(world, outcome="image-pull-error")
    message = await world.says("ImagePullBackOff")
    assert "cannot pull the image of init container wait-gcs-ready" in message
    assert "correct the image of the Ray container in the template of group workers" in message
    await warned(world, "ImagePullBackOff", "group workers: pod example-workers-worker-")

    await correct_workers(world)
    await cured(world)


@pytest.mark.embedded_only
async def test_the_error_of_a_worker_that_crashes_is_read_once_for_each_end(world: World):
    assert world.server is not None
    asked: list[tuple[str, str]] = []

    async def log(request: ApiRequest, where: ResourcePath) -> ApiResponse:
        asked.append((where.name, request.query["previous"]))
        return bytes_response(200, b"loading\nRuntimeError: no GPU found\n", "text/plain")

    world.server.hooks.pod_log = log
    world.start_operator()
    await create(world, replicas=1, outcome="crash")
    message = await world.says("CrashLoopBackOff")
    assert "saying: RuntimeError: no GPU found; see `kubectl logs" in message
    await world.settle(300)
    (worker,) = world.journal.workers()
    restarts = worker.status.container_statuses[0].restart_count
    assert 1 < len(asked) <= restarts
    assert set(asked) == {(worker.metadata.name, "true")}


@pytest.mark.vital
async def test_a_quota_that_is_too_small(world: World):
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "team"},
        "spec": {"hard": {"pods": "2"}},
    }
    await world.user.create(QUOTAS, world.namespace, quota)

    async def counted() -> bool:
        raw = await world.user.get_raw(QUOTAS, world.namespace, "team")
        return "pods" in raw.get("status", {}).get("hard", {})

    await world.eventually(counted)
    world.start_operator()
    await create(world, replicas=3)
    message = await world.says("QuotaExceeded")
    assert "exceeded quota: team, requested: pods=1, used: pods=2, limited: pods=2" in message
    assert "lower replicas" in message
    await warned(world, "FailedToCreateWorkerPod", "QuotaExceeded: group workers: ")
    conditions = (await world.cluster()).status["conditions"]
    [failed] = [each for each in conditions if each["type"] == "ReplicaFailure"]
    assert (failed["status"], failed["reason"]) == ("True", "FailedCreateWorkerPod")

    await world.user.delete(QUOTAS, world.namespace, "team")
    await cured(world)


@pytest.mark.embedded_only
@pytest.mark.parametrize(
    ("refusal", "reason", "words"),
    [
        (ErrorResponse(400, "BadRequest", WEBHOOK), "AdmissionDenied", "every pod needs a team"),
        (ErrorResponse(403, "Forbidden", RIGHT), "Forbidden", "allow system:serviceaccount:manta:"),
    ],
)
async def test_pods_that_may_not_be_created(
    world: World, refusal: ErrorResponse, reason: str, words: str
):
    running = world.start_operator(rules=[Rule(refusal, resource="pods", verbs=CREATE)])
    await create(world)
    message = await world.says(reason)
    assert message.startswith("head: cannot create a pod: ")
    assert words in message
    await warned(world, "FailedToCreateHeadPod", f"{reason}: head: ", words)

    running.transport.rules.clear()
    await cured(world)


async def test_a_group_whose_pods_are_refused_costs_no_other_group_its_pods(world: World):
    cluster = example_cluster()
    good = cluster["spec"]["workerGroupSpecs"][0] | {"maxReplicas": 100}
    resources = {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}
    container = good["template"]["spec"]["containers"][0] | {"resources": resources}
    template = {"spec": {"containers": [container]}}
    bad = good | {"groupName": "bad", "replicas": 100, "template": template}
    cluster["spec"]["workerGroupSpecs"] = [bad, bad | {"groupName": "worse"}, good]
    world.start_operator()
    await world.user.create(RAYCLUSTERS, world.namespace, cluster)

    async def there() -> bool:
        return len(world.journal.workers()) == good["replicas"]

    await world.eventually(there)
    assert (await world.says("ObjectInvalid")).startswith("group bad: ")
    await warned(world, "FailedToCreateWorkerPod", "group bad: ")


@pytest.mark.embedded_only
async def test_a_refusal_is_not_told_again_by_the_next_operator(world: World):
    rules = [Rule(ErrorResponse(403, "Forbidden", RIGHT), resource="pods", verbs=CREATE)]
    first = world.start_operator(rules=rules)
    await create(world)
    await world.says("Forbidden")
    await first.kill()
    second = world.start_operator(rules=rules)
    await warned(world, "FailedToCreateHeadPod")

    second.transport.rules.clear()
    await cured(world)


@pytest.mark.embedded_only
async def test_a_head_that_runs_out_of_memory(world: World):
    world.start_operator()
    body = example_cluster()
    template = body["spec"]["headGroupSpec"]["template"]
    template["metadata"] = {"annotations": {"sim.manta.dev/outcome": "never-ready"}}
    template["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "1", "memory": "1Gi"}}
    await world.user.create(RAYCLUSTERS, world.namespace, body)
    head = await world.eventually(lambda: running_head(world))
    await kill_for_memory(world, head)

    message = await world.says("OOMKilled")
    assert "its memory limit is 1Gi; raise resources.limits.memory of ray-head" in message
    await warned(world, "OOMKilled", "head: pod example-head-", "exit code 137 (OOMKilled)")

    path = "/spec/headGroupSpec/template/metadata/annotations"
    operations = [{"op": "replace", "path": path, "value": {}}]
    await world.user.json_patch(RAYCLUSTERS, world.namespace, "example", operations)
    await world.user.delete(PODS, world.namespace, head)
    await cured(world)


def running_head(world: World) -> str:
    heads = [pod for pod in world.journal.present.values() if role(pod) == "head"]
    return heads[0].metadata.name if heads and heads[0].status.phase == "Running" else ""


async def kill_for_memory(world: World, name: str) -> None:
    """Write what a kubelet writes when the kernel has killed a container."""
    raw = await world.user.get_raw(PODS, world.namespace, name)
    [container] = raw["status"]["containerStatuses"]
    times = {"startedAt": "2026-01-01T00:00:02Z", "finishedAt": "2026-01-01T00:00:09Z"}
    killed = container | {
        "restartCount": 1,
        "ready": False,
        "state": {
            "waiting": {
                "reason": "CrashLoopBackOff",
                "message": f"back-off 10s restarting failed container=ray-head pod={name}",
            }
        },
        "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"} | times},
    }
    patch = {"status": {"containerStatuses": [killed]}}
    await world.user.merge_patch(PODS, world.namespace, name, patch, subresource="status")


@pytest.mark.slow
@pytest.mark.embedded_only
async def test_a_node_that_is_lost(world: World):
    world.start_operator()
    await create(world)
    await world.eventually(world.is_ready)
    assert await told(world) == [], "it came up without trouble"

    await lose(world, "true")
    message = await world.says("NodeLost")
    assert "on node manta-node-0, which no longer reports" in message
    assert ", since 2026-01-01T" in message
    await world.settle(600)
    assert "was deleted and cannot terminate" in await world.says("NodeLost")
    await warned(world, "NodeLost", "node manta-node-0: pod example-head-")

    await lose(world, None)
    await world.becomes(world.condition, lambda found: found["status"] == "True", seconds=120)
    warnings = [each for each in await told(world) if each.type == "Warning"]
    assert [each.reason for each in warnings] == ["NodeLost"]
    assert world.journal.most_live_heads == 1


async def lose(world: World, value: str | None) -> None:
    patch = {"metadata": {"annotations": {"sim.manta.dev/lost": value}}}
    await world.user.merge_patch(NODES, "", "manta-node-0", patch)


@pytest.mark.slow
@pytest.mark.embedded_only
async def test_a_refusal_stays_said_while_the_api_server_gives_no_answer(world: World):
    refused = Rule(ErrorResponse(403, "Forbidden", RIGHT), resource="pods", verbs=CREATE)
    running = world.start_operator(rules=[refused])
    await create(world)
    await world.says("Forbidden")
    verdicts: set[tuple[str, str]] = set()

    async def watch() -> None:
        while True:
            found = await world.condition()
            verdicts.add((found["status"], found["reason"]))
            await world.settle(0.1)

    world.background(watch())
    for fault in (ErrorResponse(503, "ServiceUnavailable"), LostRequest(), Refused()):
        running.transport.rules[:] = [Rule(fault, resource="pods", verbs=CREATE)]
        await world.settle(60)
    assert verdicts == {("False", "Forbidden")}
    warnings = [each for each in await told(world) if each.type == "Warning"]
    assert len(warnings) == 1
