"""KubeRay's metrics of RayJobs and one of Manta's own, computed from the cache when scraped.

Reconciles count nothing, so a deleted RayJob leaves no metrics behind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controller.apimachinery.conditions import time_of
from controller.apimachinery.custom_object import status_of
from controller.ray.job.facts import State
from controller.runtime.collectors import ObjectCollector, identity, object_gauge

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from prometheus_client.core import GaugeMetricFamily, Metric

    from controller.ray.api.rayjob import RayJob


class JobCollector(ObjectCollector["RayJob"]):
    """Collects `kuberay_job_*` and `manta_job_*`."""

    def metrics(self, current: Iterable[RayJob], /) -> Iterable[Metric]:
        """Yield the samples of every job."""
        info, states, durations, failed, disrupted = families = _families()
        for job in current:
            own, status = identity(job.metadata), status_of(job)
            state = status.get("jobDeploymentStatus", "")
            info.add_metric(own, 1)
            states.add_metric([*own, state], 1)
            failed.add_metric(own, status.get("failed", 0))
            disrupted.add_metric(own, status.get("disrupted", 0))
            for name, retries, seconds in _durations(state, status):
                durations.add_metric([*own, name, str(retries)], seconds)
        return families


def _durations(state: str, status: Mapping[str, Any]) -> Iterator[tuple[str, int, float]]:
    """Yield for each ended attempt its seconds, its state and the number of earlier failures.

    Earlier attempts are known only where the CRD keeps them.
    """
    ended = [each for each in status.get("attempts", ()) if each.get("result") == "Failed"]
    terminal = State.of(state).terminal
    if terminal and ended and state == State.FAILED.value:
        ended.pop()  # yielded below, from the status
    for retries, attempt in enumerate(ended):
        seconds = _seconds(attempt)
        if seconds is not None:
            yield State.RETRYING.value, retries, seconds
    seconds = _seconds(status) if terminal else None
    if seconds is not None:
        failed = status.get("failed", 0)
        yield state, max(0, failed - 1) if state == State.FAILED.value else failed, seconds


def _seconds(times: Mapping[str, Any]) -> float | None:
    start, end = time_of(times.get("startTime")), time_of(times.get("endTime"))
    return None if start is None or end is None else (end - start).total_seconds()


def _families() -> tuple[GaugeMetricFamily, ...]:
    return (
        object_gauge(
            "kuberay_job_info",
            "Metadata information about RayJob custom resources",
        ),
        object_gauge(
            "kuberay_job_deployment_status",
            "The RayJob's current deployment status",
            "deployment_status",
        ),
        object_gauge(
            "kuberay_job_execution_duration_seconds",
            "Seconds from the start of an attempt of a RayJob until it ended or was retried",
            "job_deployment_status",
            "retry_count",
        ),
        object_gauge(
            "manta_job_failed_attempts",
            "Attempts of a RayJob that have failed",
        ),
        object_gauge(
            "manta_job_disrupted_attempts",
            "Failed attempts of a RayJob that do not count, because a disruption took their head",
        ),
    )
