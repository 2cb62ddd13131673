"""The RayJob kind: connects observing, planning and status to the runtime; metrics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from prometheus_client.core import Metric

from controller.apimachinery.conditions import time_of
from controller.apimachinery.custom_object import IdentityMemo, SpecificationMemo, status_of
from controller.apimachinery.validation import Problem
from controller.kube.resources import VOLCANO_POD_GROUPS
from controller.ray.api.batch_schedulers import VOLCANO, job_problem
from controller.ray.api.definitions import unknown_field_finder
from controller.ray.api.raycluster import RAYCLUSTERS
from controller.ray.api.rayjob import RAYJOBS, JobSpec, RayJob, readable_job_spec
from controller.ray.api.validation.job import validate_job
from controller.ray.dashboard.commands import NO_DASHBOARDS, Dashboards, HeadCommand
from controller.ray.dashboard.probes import ProbeSubscription
from controller.ray.head import read_cluster_spec
from controller.ray.job.facts import Deadlines, State
from controller.ray.job.observation import JobObservation
from controller.ray.job.observe import WATCHES, JobSources, observe_job
from controller.ray.job.plan import definition_reader, is_left_as_it_is, plan_job
from controller.ray.job.status import current_status
from controller.ray.settings import RaySettings
from controller.runtime.definitions import remember
from controller.runtime.kind import CacheReader, Kind, Owned
from controller.runtime.metrics import ObjectCollector, identity, object_gauge
from controller.runtime.plan import ExternalSource, Failure, Plan, StatusPatch


class RayJobKind(Kind["JobObservation"]):
    """Runs RayJobs.

    Args:
        external_source: talks to Ray; in an operator the same `ControllerDashboards` as
            `dashboards`.
    """

    primary = RAYJOBS
    creates = (RAYCLUSTERS,)
    owned = WATCHES
    optional = True  # a cluster may have the definition of RayClusters only

    def __init__(
        self,
        settings: RaySettings | None = None,
        dashboards: Dashboards = NO_DASHBOARDS,
        external_source: ExternalSource[ProbeSubscription, HeadCommand] | None = None,
    ) -> None:
        self.external_source = external_source
        self._settings = settings or RaySettings()
        if self._settings.batch_scheduler is VOLCANO:
            self.owned = (*WATCHES, Owned(VOLCANO_POD_GROUPS, optional=True))
        self._sources = JobSources(
            SpecificationMemo(self._validate),
            IdentityMemo(read_cluster_spec),
            unknown_field_finder(),
            definition_reader(),
            dashboards,
            self._settings,
        )

    def observe(self, key: str, reads: CacheReader) -> JobObservation | None:
        """Return everything that the plan depends on; None if the RayJob is gone."""
        return observe_job(key, reads, self._sources)

    def problem(self, observation: JobObservation) -> Problem | None:
        """Return the problem of the RayJob's specification, None if it is valid."""
        return observation.problem

    def plan(self, observation: JobObservation, now: datetime) -> Plan:
        """Return the plan for the RayJob."""
        return remember(plan_job(observation, now), observation.definition)

    def outlook(self, observation: JobObservation, now: datetime) -> Iterator[str]:
        """Yield whether an attempt counts whose head is taken away, where a field says so."""
        del now
        spec = observation.spec
        if spec.disruption_backoff_limit > 0:
            spared = observation.spared_attempts
            count = "does not count" if spared else "counts"
            yield (
                f"a head that is taken away ends the attempt, which {count} against backoffLimit "
                f"{spec.backoff_limit}: {spared} of {spec.disruption_backoff_limit} that "
                "spec.disruptionBackoffLimit allows are left"
            )

    def status_after(
        self,
        observation: JobObservation,
        plan: Plan,
        failures: tuple[Failure, ...],
        now: datetime,
    ) -> StatusPatch | None:
        """Return the current status, naming the first failed write."""
        if is_left_as_it_is(observation):
            return plan.status
        deadlines = Deadlines(now, observation.clock_jumped_at, observation.clock_steady_since)
        return current_status(observation, deadlines, failures)

    def _validate(self, job: RayJob) -> tuple[JobSpec, Problem | None]:
        found = validate_job(job, self._settings.feature_gates)
        if isinstance(found, Problem):
            return readable_job_spec(job), found
        problem = job_problem(self._settings.batch_scheduler, job.metadata, found)
        return found, problem.or_reason("InvalidRayJobSpec") if problem is not None else None


# A RayJob's metrics: KubeRay's and Manta's own, computed from the cache when scraped.
#
# Reconciles count nothing, so a deleted RayJob leaves no metrics behind.


_GAUGES: Final = (
    ("kuberay_job_info", "Metadata information about RayJob custom resources"),
    (
        "kuberay_job_deployment_status",
        "The RayJob's current deployment status",
        "deployment_status",
    ),
    (
        "kuberay_job_execution_duration_seconds",
        "Seconds from the start of an attempt of a RayJob until it ended or was retried",
        "job_deployment_status",
        "retry_count",
    ),
    ("manta_job_failed_attempts", "Attempts of a RayJob that have failed"),
    (
        "manta_job_disrupted_attempts",
        "Failed attempts of a RayJob that do not count, because a disruption took their head",
    ),
)
"""Names, texts and further labels."""


class JobCollector(ObjectCollector["RayJob"]):
    """Collects `kuberay_job_*` and `manta_job_*`."""

    def metrics(self, current: Iterable[RayJob], /) -> Iterable[Metric]:
        """Yield the samples of every job."""
        info, states, durations, failed, disrupted = families = tuple(
            object_gauge(*each) for each in _GAUGES
        )
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
