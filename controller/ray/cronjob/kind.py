"""The RayCronJob kind: observing, planning and status for the runtime."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from controller.apimachinery.custom_object import SpecificationMemo
from controller.apimachinery.problem import Problem
from controller.ray.api.definitions.crds import job_fields, unknown_field_finder
from controller.ray.api.feature_gates import FeatureGates
from controller.ray.api.raycronjob import RAYCRONJOBS
from controller.ray.api.rayjob import RAYJOBS
from controller.ray.api.validation.cronjob import validate_cron_job
from controller.ray.cronjob.observe import CRON_JOB_INDEX, cron_job_keys, observe_cron_job
from controller.ray.cronjob.plan import plan_cron_job, status_after_failures
from controller.runtime.kind import Kind, Owned
from controller.runtime.reconcile.definitions import DefinitionReader, DefinitionsReader, remember

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime, tzinfo

    from controller.apimachinery.object_schema import ObjectSchema
    from controller.ray.api.raycronjob import RayCronJob
    from controller.ray.api.validation.cronjob import ValidCronJob
    from controller.ray.cronjob.observe import CronJobObservation
    from controller.runtime.kind import CacheReader
    from controller.runtime.plan import Failure, Plan, StatusPatch


# Settings of the RayCronJob controller.

_LOCALTIME: Final = Path("/etc/localtime")


@dataclass(frozen=True, slots=True)
class CronJobSettings:
    """Settings of the RayCronJob controller.

    Attributes:
        local_zone: time zone of schedules without one.
        feature_gates: the enabled features.
    """

    local_zone: tzinfo = UTC
    feature_gates: FeatureGates = field(default_factory=FeatureGates)

    @classmethod
    def from_environment(
        cls, environment: Mapping[str, str], localtime: Path = _LOCALTIME
    ) -> CronJobSettings:
        """Find the zone as Go programs such as KubeRay do: `TZ`, else this file, else UTC.

        Args:
            environment: the process's variables.
            localtime: the file with the time zone of this machine.
        """
        return cls(local_zone=_local_zone(environment.get("TZ"), localtime))


def _local_zone(name: str | None, localtime: Path) -> tzinfo:
    try:
        if name is None:
            with localtime.open("rb") as data:
                return ZoneInfo.from_file(data, key=str(localtime))
        name = name.removeprefix(":")
        return ZoneInfo(name) if name else UTC
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC


# Fields on which the planner of RayCronJobs relies: without them RayJobs would be created twice.
#
# A RayCronJob without `lastScheduleTime` may run a tick again, and one without `suspend` runs
# although it must not. While a definition lacks such a field, no RayJob is created or deleted, and
# the RayCronJob is not written: a write would store it without the missing fields.

_KUBERAYS: Final = ("spec.suspend", "spec.timeZone", "status.lastScheduleTime")
_OURS: Final = ("spec.concurrencyPolicy", "spec.startingDeadlineSeconds")
_OF_RUNS: Final = ("status.jobDeploymentStatus", "status.jobStatus")

_CONSEQUENCE: Final = "RayCronJobs are left as they are: no RayJob is created or deleted for them"


def definitions_reader() -> DefinitionsReader:
    """Return a reader of what the installed definitions of RayCronJobs and RayJobs lack."""
    return DefinitionsReader(
        DefinitionReader(RAYCRONJOBS, _relied_on, _CONSEQUENCE),
        DefinitionReader(RAYJOBS, _relied_on_in_jobs, _CONSEQUENCE),
    )


def _relied_on(schema: ObjectSchema) -> Iterator[str]:
    """Yield the fields; KubeRay's definition has neither conditions nor Manta's additions."""
    yield from _KUBERAYS
    if not schema.lacks("status.conditions"):
        yield from _OURS
    yield from job_fields(schema, "spec.jobTemplate")


def _relied_on_in_jobs(schema: ObjectSchema) -> Iterator[str]:
    yield from _OF_RUNS
    yield from job_fields(schema, "spec")


class RayCronJobKind(Kind["CronJobObservation"]):
    """Creates the RayJobs of RayCronJobs.

    Args:
        settings: settings for all RayCronJobs.
    """

    primary = RAYCRONJOBS
    owned = (
        Owned(
            RAYJOBS,
            indexes={CRON_JOB_INDEX: cron_job_keys},
            also_enqueues=cron_job_keys,
            optional=True,
        ),
    )
    creates = (RAYJOBS,)
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
