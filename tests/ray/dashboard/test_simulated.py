"""The simulated Ray answers what the client takes for the truth."""

from __future__ import annotations

import asyncio

import pytest

from controller.ray.dashboard import (
    Head,
    JobDeleted,
    JobStatus,
    JobStopped,
    JobSubmission,
    NoSuchJob,
    Submitted,
)
from controller.ray.dashboard.values import NoResponse, Unreachable, UnusableResponse
from tests.ray.dashboard.simulated import NEVER, Course, Fault, SimulatedRay

HEAD = Head("cluster", "pod", 0, "default", "head-svc")


def submission(job_id: str = "job") -> JobSubmission:
    return JobSubmission("python job.py", job_id)


async def test_a_job_is_pending_then_running_then_ended():
    ray = SimulatedRay()
    client = await ray.connect(HEAD)
    assert await client.job("job") == NoSuchJob()
    assert await client.submit(submission()) == Submitted("job")
    seen = []
    for wait in (0.1, 2, 20):
        await asyncio.sleep(wait)
        seen.append((await client.job("job")).status)
    assert seen == [JobStatus.PENDING, JobStatus.RUNNING, JobStatus.SUCCEEDED]
    assert await client.delete("job") == JobDeleted()
    assert await client.job("job") == NoSuchJob()


async def test_a_second_submission_of_an_id_is_recognised():
    ray = SimulatedRay()
    client = await ray.connect(HEAD)
    await client.submit(submission())
    assert await client.submit(submission()) == Submitted("job")
    assert ray.submissions("job") == 1


async def test_a_stop_takes_its_time_and_never_ends_a_job_without_resources():
    ray = SimulatedRay(courses={"stuck": Course(pending=NEVER)})
    client = await ray.connect(HEAD)
    for job_id in ("job", "stuck"):
        await client.submit(submission(job_id))
        assert await client.stop(job_id) == JobStopped(stopping=True)
    assert (await client.job("job")).status is JobStatus.PENDING
    await asyncio.sleep(5)
    assert (await client.job("job")).status is JobStatus.STOPPED
    assert (await client.job("stuck")).status is JobStatus.PENDING


async def test_a_new_head_knows_no_job():
    ray = SimulatedRay()
    await (await ray.connect(HEAD)).submit(submission())
    new = Head("cluster", "pod", 1, "default", "head-svc")
    assert await (await ray.connect(new)).job("job") == NoSuchJob()


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault.REFUSES, Unreachable),
        (Fault.SILENT, NoResponse),
        (Fault.LOSES_ANSWERS, NoResponse),
        (Fault.ERROR, UnusableResponse),
        (Fault.ERROR_JSON, UnusableResponse),
        (Fault.HTML, UnusableResponse),
        (Fault.TRUNCATED, UnusableResponse),
        (Fault.FORBIDDEN, UnusableResponse),
    ],
)
async def test_faults_are_never_a_status(fault: Fault, error: type[Exception]):
    ray = SimulatedRay()
    ray.add(HEAD, "job")
    ray.fault(fault, cluster="cluster")
    with pytest.raises(error):
        await (await ray.connect(HEAD)).job("job")
    ray.fault(None, cluster="cluster")
    assert (await (await ray.connect(HEAD)).job("job")).status in {
        JobStatus.PENDING,
        JobStatus.RUNNING,
    }
