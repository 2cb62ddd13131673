"""The RayCronJob kind: observing, planning and status for the runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controller.apimachinery.custom_object import SpecificationMemo
from controller.apimachinery.problem import Problem
from controller.ray.api.definitions.unknown_fields import unknown_field_finder
from controller.ray.api.raycronjob import RAYCRONJOBS
from controller.ray.api.rayjob import RAYJOBS
from controller.ray.api.validation.cronjob import validate_cron_job
from controller.ray.cronjob.definition import definitions_reader
from controller.ray.cronjob.observe import observe_cron_job
from controller.ray.cronjob.plan import plan_cron_job, status_after_failures
from controller.ray.cronjob.runs import CRON_JOB_INDEX, cron_job_keys
from controller.ray.cronjob.settings import CronJobSettings
from controller.runtime.kind import Owned
from controller.runtime.reconcile.definitions.definition_guard import remember

if TYPE_CHECKING:
    from datetime import datetime

    from controller.kube.resources import Resource
    from controller.ray.api.raycronjob import RayCronJob
    from controller.ray.api.validation.cronjob import ValidCronJob
    from controller.ray.cronjob.observation import CronJobObservation
    from controller.runtime.kind import CacheReader
    from controller.runtime.plan import Failure, Plan, StatusPatch


class RayCronJobKind:
    """Creates the RayJobs of RayCronJobs.

    Args:
        settings: settings for all RayCronJobs.
    """

    name = "raycronjob-controller"
    primary: Resource[Any] = RAYCRONJOBS
    owned: tuple[Owned[Any], ...] = (
        Owned(
            RAYJOBS,
            indexes={CRON_JOB_INDEX: cron_job_keys},
            also_enqueues=cron_job_keys,
            optional=True,
        ),
    )
    creates: tuple[Resource[Any], ...] = (RAYJOBS,)
    external_source = None
    unready_reason = ""
    optional = True

    def __init__(self, settings: CronJobSettings | None = None) -> None:
        self._settings = settings or CronJobSettings()
        self._validated = SpecificationMemo(self._validate)
        self._unknown_fields_of = unknown_field_finder()
        self._read_definition = definitions_reader()

    def observe(self, key: str, reads: CacheReader) -> CronJobObservation | None:
        """Return everything that the plan depends on; None if the RayCronJob is gone."""
        return observe_cron_job(
            key, reads, self._validated, self._unknown_fields_of, self._read_definition
        )

    def problem(self, observation: CronJobObservation) -> Problem | None:
        """Return the problem of the specification, None if it is valid."""
        return observation.validated if isinstance(observation.validated, Problem) else None

    def plan(self, observation: CronJobObservation, now: datetime) -> Plan:
        """Return the plan for the RayCronJob."""
        return remember(plan_cron_job(observation, now), observation.definition)

    def status_after(
        self,
        observation: CronJobObservation,
        plan: Plan,
        failures: tuple[Failure, ...],
        now: datetime,
    ) -> StatusPatch | None:
        """Return the plan's status, naming the first failed write."""
        return status_after_failures(observation, plan, failures, now)

    def _validate(self, cron: RayCronJob) -> ValidCronJob | Problem:
        settings = self._settings
        return validate_cron_job(cron, settings.feature_gates, settings.local_zone)
