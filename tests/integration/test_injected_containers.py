"""A webhook puts its container first in every pod; the whole operator looks at Ray's."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import msgspec
import pytest

from controller.kube.objects import Pod
from controller.kube.resources import JOBS, PODS
from controller.ray.api import RAYCLUSTERS
from controller.ray.dashboard import JobStatus
from tests.integration.harness import World, embedded_world, live, role
from tests.integration.rays import Rays, forever, submitter
from tests.integration.test_rayjob_bugs import running
from tests.neighbours.sicknesses.admission import inject_sidecar
from tests.ray.dashboard.simulated import Course
from tests.ray.job.rayjobs import is_head_lost
from tests.samples import case

pytestmark = [pytest.mark.slow, pytest.mark.embedded_only, pytest.mark.timeout(300)]


def with_webhook(world: World) -> Any:
    """A mesh changes each pod at its creation, on the API server."""
    assert world.server is not None
    writer = world.server._handler.writer
    create = writer.create

    def mutated(of: Any, namespace: str, obj: dict[str, Any], *rest: Any, **more: Any) -> Any:
        if of.table == "pods":
            obj = msgspec.json.decode(msgspec.json.encode(obj))
            inject_sidecar(obj)
        return create(of, namespace, obj, *rest, **more)

    return patch.object(writer, "create", mutated)


def head_of(world: World) -> Pod:
    (head,) = [pod for pod in world.journal.present.values() if role(pod) == "head" and live(pod)]
    assert head.spec.containers[0].name == "istio-proxy"
    return head


async def report(world: World, pod: Pod, **ray: Any) -> None:
    """Change what the kubelet reports of the head's Ray container, and of no other."""
    raw = msgspec.json.decode(msgspec.json.encode(pod.status.container_statuses))
    statuses = [each | (ray if each["name"] == "ray-head" else {}) for each in raw]
    assert statuses != raw
    patched = {"status": {"containerStatuses": statuses}}
    meta = pod.metadata
    await world.user.merge_patch(PODS, meta.namespace, meta.name, patched, subresource="status")


async def test_a_dead_head_behind_a_proxy_is_replaced():
    (manifest,) = case("20-injected-container-first.yaml")
    async with embedded_world() as world:
        with with_webhook(world):
            world.start_operator()
            await world.user.create(RAYCLUSTERS, world.namespace, manifest)
            await world.eventually(lambda: world.is_ready("injected"), seconds=120)
            dead = head_of(world)
            await report(world, dead, state={"terminated": {"exitCode": 1, "reason": "Error"}})

            def is_replaced() -> bool:
                heads = [each for each in world.journal.created.values() if role(each) == "head"]
                return dead.metadata.uid not in world.journal.present and len(heads) == 2

            await world.eventually(is_replaced, seconds=120)


async def test_a_rayjob_does_not_go_on_without_its_job():
    async with embedded_world() as world:
        rays = Rays(world)
        await rays.open()
        rays.ray.course = lambda _body: forever()
        with with_webhook(world):
            rays.start_operator()
            await rays.create()
            await running(rays)
            await report(world, head_of(world), restartCount=1)
            assert is_head_lost(await rays.reaches("Failed", seconds=120))


# -- rayJobs in a service mesh: a proxy that does not end stands in every submitter's pod ----------


PROXY = {"name": "istio-proxy", "image": "istio/proxyv2:1.24.0"}


def meshed() -> dict[str, Any]:
    """A submitter with a proxy beside it."""
    template = submitter()
    containers = template["spec"]["containers"]
    containers.append(PROXY)
    return template


async def submitters_left(rays: Rays) -> list[str]:
    found = await rays.world.user.list(PODS, rays.world.namespace)
    roles = (((p.metadata.labels or {}).get("ray.io/node-type"), p) for p in found.items)
    return [pod.metadata.name for role, pod in roles if role == "submitter"]


@pytest.mark.parametrize("result", [JobStatus.SUCCEEDED, JobStatus.FAILED])
async def test_a_job_ends_with_its_submitter_and_no_proxy_lives_on(rays: Rays, result: JobStatus):
    rays.ray.course = lambda _body: Course(running=30, result=result)
    rays.start_operator()
    await rays.create(submissionMode="K8sJobMode", submitterPodTemplate=meshed())
    await rays.world.eventually(rays.heads, seconds=60)
    done = "Complete" if result is JobStatus.SUCCEEDED else "Failed"
    await rays.reaches(done, seconds=100)
    ended = rays.world.loop.time()
    await rays.world.eventually(lambda: _has_none(rays), seconds=60, pause=0.5)
    assert rays.world.loop.time() - ended < 60
    assert await rays.jobs_of_kubernetes() == []
    assert await rays.state() == done


async def _has_none(rays: Rays) -> bool:
    return await submitters_left(rays) == []


async def test_a_submitter_that_fails_beside_a_proxy_is_tried_as_often_as_without_one(rays: Rays):
    rays.submitters_fail = lambda _job_id: True
    rays.start_operator()
    await rays.create(submissionMode="K8sJobMode", submitterPodTemplate=meshed())
    status = await rays.reaches("Failed", seconds=300)
    assert status["reason"] == "SubmissionFailed"
    assert "exit code 1 (Error)" in status["message"]
    made = [
        pod
        for pod in rays.world.journal.created.values()
        if (pod.metadata.labels or {}).get("ray.io/node-type") == "submitter"
    ]
    assert len(made) == 3, "backoffLimit is 2"
    assert rays.ray.submissions() == 0


async def test_a_submitter_without_a_proxy_keeps_its_job(rays: Rays):
    rays.start_operator()
    await rays.create(submissionMode="K8sJobMode")
    await rays.reaches("Complete", seconds=100)
    await rays.world.settle(90)
    assert len((await rays.world.user.list(JOBS, rays.world.namespace)).items) == 1
