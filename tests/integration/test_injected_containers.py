"""A webhook puts its container first in every pod; the whole operator looks at Ray's."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import msgspec
import pytest

from controller.kube.objects import Pod
from controller.kube.resources import PODS
from controller.ray.dashboard.responses import JobStatus
from tests.integration.harness import World, live, role
from tests.integration.rays import Rays, submitter
from tests.neighbours.sicknesses.admission import inject_sidecar
from tests.ray.dashboard.simulated import Course

pytestmark = [pytest.mark.slow, pytest.mark.embedded_only, pytest.mark.timeout(300)]


def with_webhook(world: World) -> Any:
    """A mesh changes each pod at its creation, on the API server."""
    assert world.server is not None
    writer = world.server.writer
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
