"""`manta why`: what is left of a decision, and what is not."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from controller.command.status.why import WhyOptions, explain
from controller.kube.resources import EVENTS, PODS
from controller.ray.api import RAYCLUSTERS
from controller.ray.dashboard.responses import JobStatus
from tests.integration.harness import World
from tests.integration.rays import Rays
from tests.integration.test_status import AGENT, refuse
from tests.integration.test_two_writers import track_managers
from tests.ray.dashboard.simulated import Course

pytestmark = pytest.mark.slow


async def told(world: World, target: str, *, status: int = 0) -> dict[str, Any]:
    return json.loads(await printed(world, target, status=status, output="json"))


async def printed(world: World, target: str, *, status: int = 0, output: Any = "text") -> str:
    stream = io.StringIO()
    options = WhyOptions([target], output=output)
    assert await explain(world.client(AGENT), world.namespace, options, stream) == status
    return stream.getvalue()


async def ready(world: World, *, replicas: int = 2) -> None:
    world.start_operator()
    await world.create_cluster(replicas=replicas)
    await world.eventually(world.is_ready)
    await world.events_about("RayCluster", "example", "CreatedWorkerPod")


def names(world: World) -> set[str]:
    return {each.metadata.name for each in world.journal.present.values()}


async def test_a_pod_that_was_scaled_away_is_told_with_both_decisions(world: World):
    await ready(world)
    before = names(world)
    await world.scale(1)
    await world.eventually(lambda: len(names(world)) == 2)
    await world.events_about("RayCluster", "example", "DeletedWorkerPod")
    (gone,) = before - names(world)
    account = await told(world, f"pod/{gone}")
    assert f"Created pod {gone}" in account["made"]
    assert ", CreatedWorkerPod of raycluster/example by raycluster-controller: " in account["made"]
    assert account["deleted"].endswith(
        f"Deleted pod {gone} because the group has more pods than it should"
    )
    assert account["owners"] == ["raycluster/example, ready: the head and all workers are ready"]
    assert any("which are gone with the object" in each for each in account["unknown"])
    text = (await printed(world, f"pod/{gone}")).splitlines()
    assert text[:2] == [f"pod/{gone}", f"  made: {account['made']}"]


@pytest.mark.embedded_only
@pytest.mark.parametrize("pause", [60, 600])
async def test_one_pod_among_many_that_one_event_counts_is_said_to_be_probably_among_them(
    world: World, pause: float
):
    await ready(world, replicas=5)
    first = names(world)
    await world.settle(pause)
    await world.scale(10)
    await world.eventually(lambda: len(world.journal.ready_workers()) == 10)
    await world.settle(5)
    for pod in (max(first), max(names(world) - first)):  # a worker of each time
        account = await told(world, f"pod/{pod}")
        assert account["made"].endswith("Created 5 pods (this one was probably among them)")
        facts = [each for each in account["facts"] if "Created 5 pods" in each["what"]]
        assert len(facts) == 1


async def test_a_name_that_another_one_begins_with_is_not_that_one(
    world: World, capsys: pytest.CaptureFixture[str]
):
    await ready(world)
    assert await printed(world, "pod/example-head", status=1) == ""
    assert "does not exist in namespace" in capsys.readouterr().err


async def test_a_pod_that_another_client_deleted_is_told_with_where_to_look(world: World):
    await ready(world)
    pod = world.journal.workers()[0].metadata.name
    await world.user.delete(PODS, world.namespace, pod)
    await world.eventually(lambda: pod not in names(world))
    account = await told(world, f"pod/{pod}")
    assert account["deleted"] == (
        "nothing tells by whom; the audit log of the API server names the client"
    )


async def test_what_evicted_a_pod_is_told_while_it_is_there_and_by_events_when_it_is_gone(
    world: World,
):
    await ready(world)
    pod = world.journal.workers()[0].metadata
    held = {"metadata": {"finalizers": ["example.com/held"]}}
    await world.user.merge_patch(PODS, world.namespace, pod.name, held)
    target = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    patch = {"status": {"conditions": [target]}}
    await world.user.merge_patch(PODS, world.namespace, pod.name, patch, subresource="status")
    await world.user.delete(PODS, world.namespace, pod.name)
    account = await told(world, f"pod/{pod.name}")
    assert account["deleted"].endswith("Z, EvictionByEvictionAPI: Eviction API: evicting")
    event = {
        "metadata": {"name": "a", "namespace": world.namespace},
        "eventTime": "2026-01-01T00:00:05.000000Z",
        "type": "Normal",
        "reason": "Preempted",
        "action": "Preempting",
        "note": "Preempted by pod b on node c",
        "reportingController": "default-scheduler",
        "reportingInstance": "a",
        "regarding": {
            "kind": "Pod",
            "name": pod.name,
            "uid": pod.uid,
            "namespace": world.namespace,
        },
    }
    await world.user.create(EVENTS, world.namespace, event)
    free = {"metadata": {"finalizers": None}}
    await world.user.merge_patch(PODS, world.namespace, pod.name, free)
    await world.eventually(lambda: pod.name not in names(world))
    account = await told(world, f"pod/{pod.name}")
    assert account["deleted"].endswith("by default-scheduler: Preempted by pod b on node c")


async def test_a_pod_whose_cluster_was_deleted_went_with_it(world: World):
    await ready(world)
    pod = world.journal.workers()[0].metadata.name
    await world.user.delete(RAYCLUSTERS, world.namespace, "example")
    await world.eventually(world.is_gone)
    account = await told(world, f"pod/{pod}")
    assert account["deleted"] == (
        "by the garbage collector, because its owner is deleted: raycluster/example, which is gone"
    )


@pytest.mark.embedded_only
async def test_the_last_writer_of_a_specification_is_told_with_the_field(world: World):
    await ready(world)
    await track_managers(world, RAYCLUSTERS, "example")
    await world.client("kueue").merge_patch(
        RAYCLUSTERS, world.namespace, "example", {"spec": {"suspend": True}}
    )
    account = await told(world, "raycluster/example")
    assert account["changed"].endswith(", kueue wrote spec.suspend (Update)")
    assert account["deleted"] == "no"
    assert not [each for each in account["facts"] if "before-first-apply" in each["what"]]


async def test_the_cluster_of_a_failed_attempt_is_told_with_what_the_job_has_recorded(rays: Rays):
    results = iter([JobStatus.FAILED, JobStatus.SUCCEEDED])
    rays.ray.course = lambda _body: Course(result=next(results))
    rays.start_operator()
    await rays.create(backoffLimit=2)
    status = await rays.reaches("Complete", seconds=300)
    first = status["attempts"][0]["rayClusterName"]
    await rays.events("DeletedRayCluster")
    account = await told(rays.world, f"raycluster/{first}")
    assert (
        f"CreatedRayCluster of rayjob/job by rayjob-controller: Created RayCluster {first}"
        in (account["made"])
    )
    assert account["deleted"].endswith(f": Deleted cluster {first}")
    (record,) = [each["what"] for each in account["facts"] if each["source"] == "record"]
    assert record.startswith("attempt of rayjob/job: number 1, result Failed, reason AppFailed")


async def test_without_events_the_owner_is_named_and_that_events_are_kept_an_hour(world: World):
    await ready(world)
    path = EVENTS.path(world.namespace)
    for each in (await world.user.list(EVENTS, world.namespace)).items:
        await world.user.request_json("DELETE", f"{path}/{each.metadata.name}")
    pod = world.journal.workers()[0].metadata.name
    account = await told(world, f"pod/{pod}")
    assert account["made"].endswith("Z, for raycluster/example")
    assert any("events are kept for an hour" in each for each in account["unknown"])


@pytest.mark.embedded_only
async def test_events_that_may_not_be_read_are_named(world: World):
    await ready(world)
    refuse(world, "events", "list")
    account = await told(world, "raycluster/example", status=1)
    assert "events.events.k8s.io are not shown" in account["unknown"][0]
