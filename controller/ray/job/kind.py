"""The RayJob kind: connects observing, planning and status to the runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.apimachinery.custom_object import IdentityMemo, SpecificationMemo
from controller.apimachinery.problem import Problem
from controller.kube.resources import VOLCANO_POD_GROUPS
from controller.ray.api.batch_schedulers import VOLCANO, job_problem
from controller.ray.api.definitions.crds import unknown_field_finder
from controller.ray.api.raycluster import RAYCLUSTERS
from controller.ray.api.rayjob import RAYJOBS, readable_job_spec
from controller.ray.api.validation.job import validate_job
from controller.ray.dashboard import NO_DASHBOARDS
from controller.ray.head.endpoint import read_cluster_spec
from controller.ray.job.collect_facts import spared_attempts
from controller.ray.job.facts import Deadlines
from controller.ray.job.observation import definition_reader, is_left_as_it_is
from controller.ray.job.observe import WATCHES, JobSources, observe_job
from controller.ray.job.plan import plan_job
from controller.ray.job.settings import JobSettings
from controller.ray.job.status import current_status
from controller.runtime.kind import Kind, Owned
from controller.runtime.reconcile.definitions import remember

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from controller.ray.api.rayjob import JobSpec, RayJob
    from controller.ray.dashboard import Dashboards, HeadCommand, ProbeSubscription
    from controller.ray.job.observation import JobObservation
    from controller.runtime.kind import CacheReader
    from controller.runtime.plan import ExternalSource, Failure, Plan, StatusPatch


class RayJobKind(Kind["JobObservation"]):
    """Runs RayJobs.

    Args:
        dashboards: Ray's reports.
        external_source: talks to Ray; in an operator the same `ControllerDashboards` as
            `dashboards`.
        settings: settings for all RayJobs.
    """

    primary = RAYJOBS
    creates = (RAYCLUSTERS,)
    owned = WATCHES
    optional = True  # a cluster may have the definition of RayClusters only

    def __init__(
        self,
        dashboards: Dashboards = NO_DASHBOARDS,
        external_source: ExternalSource[ProbeSubscription, HeadCommand] | None = None,
        settings: JobSettings | None = None,
    ) -> None:
        self.external_source = external_source
        self._settings = settings or JobSettings()
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
        return remember(plan_job(observation, self._settings, now), observation.definition)

    def outlook(self, observation: JobObservation, now: datetime) -> Iterator[str]:
        """Yield whether an attempt counts whose head is taken away, where a field says so."""
        del now
        spec = observation.spec
        if spec.disruption_backoff_limit > 0:
            spared = spared_attempts(observation)
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
        return current_status(observation, self._settings, deadlines, failures)

    def _validate(self, job: RayJob) -> tuple[JobSpec, Problem | None]:
        found = validate_job(job, self._settings.feature_gates)
        if isinstance(found, Problem):
            return readable_job_spec(job), found
        problem = job_problem(self._settings.batch_scheduler, job.metadata, found)
        return found, problem.or_reason("InvalidRayJobSpec") if problem is not None else None
