"""RayJobs from their manifests to their ends, on simulated Rays."""

from __future__ import annotations

import pytest

from controller.ray.dashboard import JobStatus
from tests.integration.rays import Rays
from tests.ray.dashboard.simulated import Course

pytestmark = pytest.mark.timeout(300)


async def test_a_job_over_http_runs_once_and_completes(rays: Rays):
    rays.start_operator()
    await rays.create()
    status = await rays.reaches("Complete")

    assert status["jobStatus"] == "SUCCEEDED"
    assert status["succeeded"] == 1
    assert status.get("failed", 0) == 0
    assert rays.ray.submissions() == 1
    (attempt,) = status["attempts"]
    assert attempt["result"] == "Succeeded"
    assert attempt["rayClusterName"] == status["rayClusterName"]
    assert await rays.clusters() == [status["rayClusterName"]]


async def test_a_failed_job_is_retried_on_a_fresh_cluster(rays: Rays):
    results = iter([JobStatus.FAILED, JobStatus.SUCCEEDED])
    rays.ray.course = lambda _body: Course(result=next(results))
    rays.start_operator()
    await rays.create(backoffLimit=2)
    status = await rays.reaches("Complete", seconds=300)

    assert (status["failed"], status["succeeded"]) == (1, 1)
    first, second = status["attempts"]
    assert (first["result"], first["reason"]) == ("Failed", "AppFailed")
    assert first["rayClusterName"] != second["rayClusterName"]
    assert first["jobId"] != second["jobId"]
    assert await rays.clusters() == [second["rayClusterName"]]
    assert rays.ray.submissions() == 2
    retried = [
        note for reason, note in await rays.events("RetryingRayJob") if reason == "RetryingRayJob"
    ]
    assert len(retried) == 1
    assert "attempt 1 of 3" in retried[0]


async def test_a_job_with_a_submitter_runs_once_and_completes(rays: Rays):
    rays.start_operator()
    await rays.create(submissionMode="K8sJobMode")
    status = await rays.reaches("Complete")
    assert status["succeeded"] == 1
    assert rays.ray.submissions() == 1
