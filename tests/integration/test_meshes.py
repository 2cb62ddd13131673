"""RayJobs in a service mesh: a proxy that does not end stands in every submitter's pod."""

from __future__ import annotations

from typing import Any

import pytest

from controller.kube.resources import JOBS, PODS
from controller.ray.dashboard import JobStatus
from tests.integration.rays import Rays, submitter
from tests.ray.dashboard.simulated import Course

pytestmark = [pytest.mark.timeout(300), pytest.mark.embedded_only]

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
