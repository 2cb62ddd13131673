"""KubeRay's metrics of RayJobs, as they are scraped."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, generate_latest

from controller.ray.job import JobCollector
from tests.ray.job.rayjobs import job_manifest, rayjob


def scraped(**status: Any) -> list[str]:
    job = rayjob(job_manifest() | {"status": status})
    registry = CollectorRegistry()
    registry.register(JobCollector(lambda: [job]))
    text = generate_latest(registry).decode()
    return [line for line in text.splitlines() if not line.startswith("#")]


IDENTITY = 'name="example",namespace="default",uid="uid-of-job"'


def test_a_job_without_status_has_its_info_and_an_empty_state():
    assert scraped() == [
        f"kuberay_job_info{{{IDENTITY}}} 1.0",
        f'kuberay_job_deployment_status{{deployment_status="",{IDENTITY}}} 1.0',
        f"manta_job_failed_attempts{{{IDENTITY}}} 0.0",
        f"manta_job_disrupted_attempts{{{IDENTITY}}} 0.0",
    ]


def test_each_attempt_that_ended_has_its_duration_under_the_retries_before_it():
    lines = scraped(
        jobDeploymentStatus="Complete",
        startTime="2026-01-01T00:10:00Z",
        endTime="2026-01-01T00:11:00Z",
        failed=1,
        succeeded=1,
        attempts=[
            {
                "number": 1,
                "result": "Failed",
                "startTime": "2026-01-01T00:00:00Z",
                "endTime": "2026-01-01T00:00:30Z",
            },
            {"number": 2, "result": "Succeeded"},
        ],
    )
    retried, completed = (line for line in lines if "duration" in line)
    assert 'job_deployment_status="Retrying"' in retried
    assert 'retry_count="0"' in retried
    assert retried.endswith(" 30.0")
    assert 'job_deployment_status="Complete"' in completed
    assert 'retry_count="1"' in completed
    assert completed.endswith(" 60.0")


def test_the_last_failure_counts_once_and_under_the_failures_before_it():
    lines = scraped(
        jobDeploymentStatus="Failed",
        startTime="2026-01-01T00:00:00Z",
        endTime="2026-01-01T00:00:30Z",
        failed=1,
        attempts=[
            {
                "number": 1,
                "result": "Failed",
                "startTime": "2026-01-01T00:00:00Z",
                "endTime": "2026-01-01T00:00:30Z",
            }
        ],
    )
    (duration,) = (line for line in lines if "duration" in line)
    assert 'job_deployment_status="Failed"' in duration
    assert 'retry_count="0"' in duration
    assert duration.endswith(" 30.0")
