"""A cluster that is not ready says why: in its condition, by one event, until it is cured."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from controller.kube.objects import KubeObject
from controller.kube.resources import EVENTS, Resource
from controller.ray.api import RAYCLUSTERS
from controller.testing.faults import ErrorResponse, Rule
from tests.integration.harness import REAL_KUBECONFIG, World, example_cluster

QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota", KubeObject)
CREATE = frozenset({"create"})
LONG_ENOUGH = 3.0 if REAL_KUBECONFIG else 30.0
"""Seconds in which the same cause would be told again, if it were."""
CLUSTER_READY = ("Normal", "RayClusterReady")
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
