"""Every recorded answer means what it should, and nothing else means anything."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from controller.apimachinery.redaction import plain
from controller.ray.dashboard import (
    DashboardError,
    JobSubmission,
    NotAuthorized,
    RefusedByRay,
    UnusableResponse,
)
from controller.ray.dashboard import responses as answers
from controller.ray.dashboard.responses import MAX_MESSAGE, JobStatus, NoSuchJob, RayVersion
from controller.ray.dashboard.transport import DashboardResponse
from tests.ray.dashboard.client.readers import MEANS_SOMETHING, READS
from tests.ray.dashboard.recorded import NAMES, recorded

JOBS = {
    "job-get-failed-after-head-restart": ("ftjob", JobStatus.FAILED),
    "job-get-failed-command-not-found": ("demo-nocmd", JobStatus.FAILED),
    "job-get-failed-exception": ("demo-fail-1", JobStatus.FAILED),
    "job-get-failed-exit-code": ("demo-exit3", JobStatus.FAILED),
    "job-get-failed-runtime-env": ("demo-badenv", JobStatus.FAILED),
    "job-get-infeasible-still-pending-after-stop": ("demo-infeasible", JobStatus.PENDING),
    "job-get-just-after-stop": ("demo-long", JobStatus.RUNNING),
    "job-get-pending": ("demo-ok-x7k2p", JobStatus.PENDING),
    "job-get-pending-infeasible": ("demo-infeasible", JobStatus.PENDING),
    "job-get-running": ("demo-long", JobStatus.RUNNING),
    "job-get-running-before-driver": ("demo-ok-x7k2p", JobStatus.RUNNING),
    "job-get-stale-running-after-head-restart": ("ftjob", JobStatus.RUNNING),
    "job-get-stopped": ("demo-long", JobStatus.STOPPED),
    "job-get-succeeded": ("demo-ok-x7k2p", JobStatus.SUCCEEDED),
    "job-get-with-runtime-env": ("demo-env", JobStatus.SUCCEEDED),
}


@pytest.mark.parametrize("name", JOBS)
def test_a_recorded_job_is_what_it_was(name: str):
    job_id, status = JOBS[name]
    job = answers.job(recorded(name), job_id)
    body = json.loads(recorded(name).body)
    assert job.status is status
    assert job.submission_id == job_id
    assert job.start_time.timestamp() == pytest.approx(body["start_time"] / 1000)
    assert (job.end_time is not None) == status.terminal
    assert job.message == plain(body["message"])
    assert "\x1b" not in job.message


def test_every_recorded_job_is_in_the_table():
    assert set(JOBS) == {
        name for name in NAMES if name.startswith("job-get-") and name != "job-get-404"
    }


def test_recorded_times_are_utc():
    job = answers.job(recorded("job-get-succeeded"), "demo-ok-x7k2p")
    assert job.start_time == datetime(2026, 11, 20, 11, 39, 46, 600000, UTC)


def test_other_recorded_answers_are_what_they_were():
    assert answers.job(recorded("job-get-404"), "no-such-job") == NoSuchJob()
    assert answers.stop(recorded("job-stop-404"), "nope") == NoSuchJob()
    assert answers.stop(recorded("job-stop"), "demo-long") is None
    assert answers.stop(recorded("job-stop-when-terminal"), "x") is None
    answers.deletion(recorded("job-delete"), "demo-long")
    answers.submission(recorded("job-submit"), "demo-ok-x7k2p")
    answers.submission(recorded("job-submit-duplicate-500"), "demo-ok-x7k2p")
    assert answers.version(recorded("version")).ray_version == "2.60.0"
    assert isinstance(answers.version(recorded("version")), RayVersion)
    answers.gcs_health(recorded("gcs-healthz"))


def test_recorded_refusals_say_why():
    with pytest.raises(RefusedByRay, match="missing 1 required positional argument: 'entrypoint'"):
        answers.submission(recorded("job-submit-invalid-400"), "x")
    with pytest.raises(UnusableResponse, match="non-terminal state RUNNING"):
        answers.deletion(recorded("job-delete-running-500"), "demo-long")
    with pytest.raises(NotAuthorized, match="Missing authentication token"):
        answers.job(recorded("auth-missing-token-401"), "x")


def test_what_the_agent_refuses_is_refused():
    body = recorded("job-submit-duplicate-500").body.replace(
        b"already exists. Please use a different submission_id", b"has a runtime_env that is wrong"
    )
    answer = replace(recorded("job-submit-duplicate-500"), body=body)
    with pytest.raises(RefusedByRay, match="runtime_env that is wrong"):
        answers.submission(answer, "demo-ok-x7k2p")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("read", READS)
def test_no_other_recorded_answer_means_anything(read: str, name: str):
    if (read, name) in MEANS_SOMETHING:
        READS[read](recorded(name))
    else:
        with pytest.raises(DashboardError):
            READS[read](recorded(name))


JSON_JOB = recorded("job-get-running").body


@pytest.mark.parametrize(
    "answer",
    [
        DashboardResponse(200, "text/html", b"<html>Welcome to the proxy</html>"),
        DashboardResponse(200, "text/html", JSON_JOB),
        DashboardResponse(200, "", JSON_JOB),
        DashboardResponse(200, "application/json", JSON_JOB[:-20]),
        DashboardResponse(200, "application/json", b""),
        DashboardResponse(200, "application/json", b"{}"),
        DashboardResponse(200, "application/json", b"null"),
        DashboardResponse(200, "application/json", b"[" * 100_000),
        DashboardResponse(200, "application/json", b"\xff\xfe"),
        DashboardResponse(204, "application/json", JSON_JOB),
        DashboardResponse(500, "application/json", JSON_JOB),
        DashboardResponse(503, "application/json", b'{"status": "FAILED"}'),
        DashboardResponse(404, "text/html", b"Job demo-long does not exist"),
        DashboardResponse(404, "text/plain", b"404: Not Found"),
        DashboardResponse(404, "text/plain", b"Job another does not exist"),
        DashboardResponse(404, "application/json", b'{"kind": "Status", "code": 404}'),
        recorded("job-get-running", submission_id="demo-long", status="UNHEARD_OF"),
        recorded("job-get-running", submission_id="demo-long", status=None),
        recorded("job-get-running", submission_id="another", job_id="01000000"),
        recorded("job-get-running", start_time=10**30),
        recorded("job-get-running", start_time="yesterday"),
        recorded("job-get-running", message=["x"]),
    ],
    ids=range(22),
)
@pytest.mark.parametrize("read", ["job", "stop", "deletion", "submission"])
def test_anything_else_is_unknown(read: str, answer: DashboardResponse):
    if read == "submission" and answer.status == 200 and b'"demo-long"' in answer.body:
        answer = replace(answer, body=answer.body.replace(b'"demo-long"', b'"another"'))
    with pytest.raises(UnusableResponse):
        READS[read](answer)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_told_as_one(status: int):
    with pytest.raises(UnusableResponse):
        answers.job(DashboardResponse(status, "text/html", b"see there"), "job")


def test_a_page_of_a_proxy_is_no_refusal():
    with pytest.raises(UnusableResponse):
        answers.submission(DashboardResponse(400, "text/html", b"<html>Bad Request</html>"), "job")


def test_another_duplicate_is_no_submission():
    with pytest.raises(RefusedByRay):
        answers.submission(recorded("job-submit-duplicate-500"), "quite-another")


def test_long_messages_keep_their_beginning_and_their_end():
    text = "begin" + "x" * 100_000 + "end"
    job = answers.job(recorded("job-get-failed-exception", message=text), "demo-fail-1")
    assert len(job.message) == MAX_MESSAGE
    assert job.message.startswith("begin")
    assert job.message.endswith("end")


def test_a_time_of_zero_is_none():
    job = answers.job(recorded("job-get-running", end_time=0), "demo-long")
    assert job.end_time is None


def test_what_is_zero_or_empty_is_not_submitted():
    assert JobSubmission("python x.py", "a").body() == {
        "entrypoint": "python x.py",
        "submission_id": "a",
    }
    full: dict[str, Any] = {
        "entrypoint": "python x.py",
        "submission_id": "a",
        "runtime_env": {"pip": ["x"]},
        "metadata": {"a": "b"},
        "entrypoint_num_cpus": 0.5,
        "entrypoint_num_gpus": 1,
        "entrypoint_resources": {"tpu": 1},
    }
    assert JobSubmission(**full).body() == full
    assert "pip" not in repr(JobSubmission(**full))
