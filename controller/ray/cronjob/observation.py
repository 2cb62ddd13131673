"""The input of a RayCronJob's plan: the RayCronJob and its RayJobs at one moment, as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.custom_object import status_of
from controller.runtime.reconcile.definitions.installed_definition import InstalledDefinition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.apimachinery.problem import Problem
    from controller.ray.api.raycronjob import RayCronJob
    from controller.ray.api.validation.cronjob import ValidCronJob
    from controller.ray.cronjob.runs import JobRun

SCOPE: Final = "rayjobs"
"""Scope of all writes to RayJobs: while one is of unknown outcome, none is created or deleted."""


@dataclass(frozen=True, slots=True)
class CronJobObservation:
    """A RayCronJob and its RayJobs.

    Attributes:
        cron: the RayCronJob.
        validated: its specification and schedule, or the `Problem` that makes it invalid.
        runs: its RayJobs, including terminating ones, oldest first.
        name_conflicts: names its RayJobs could get that are not free; the values complete the
            sentence "there is a RayJob of this name that ...".
        has_pending_writes: whether the outcome of a write to a RayJob is unknown.
        unknown_fields: a sentence that names the unknown fields of its pod templates; may be empty.
        definition: what the installed definitions of RayCronJobs and RayJobs lack.
        consistency_warnings: sentences about writes that the cache contradicts.
    """

    cron: RayCronJob
    validated: ValidCronJob | Problem
    runs: tuple[JobRun, ...] = ()
    name_conflicts: Mapping[str, str] = field(default_factory=dict[str, str])
    has_pending_writes: bool = False
    unknown_fields: str = ""
    definition: InstalledDefinition = field(default_factory=InstalledDefinition)
    consistency_warnings: tuple[str, ...] = ()

    @property
    def status(self) -> dict[str, Any]:
        """The present status."""
        return status_of(self.cron)

    @property
    def conditions(self) -> list[dict[str, Any]]:
        """The present conditions."""
        return self.status.get("conditions") or []
