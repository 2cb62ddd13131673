"""Everything that a RayCronJob's plan depends on, gathered from the caches at one moment."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from controller.apimachinery.ownership import is_owned_by
from controller.ray.api.raycronjob import RAYCRONJOBS, status_of
from controller.ray.api.rayjob import RAYJOBS
from controller.ray.cronjob.runs import CRON_JOB_INDEX, Run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from controller.apimachinery.problem import Problem
    from controller.ray.api.raycronjob import RayCronJob
    from controller.ray.api.rayjob import RayJob
    from controller.ray.api.validation.cronjob import ValidCronJob
    from controller.runtime.reconcile.kind import Reads

SCOPE = "rayjobs"
"""While the outcome of a write to a RayJob is unknown, none is made and none is deleted."""


@dataclass(frozen=True, slots=True)
class Observation:
    """A RayCronJob and its RayJobs as they are.

    Attributes:
        cron: the object.
        design: what follows from it; a `Problem` if it is not valid.
        runs: its RayJobs, those that are going included, the oldest first.
        taken: names that its RayJobs could get and that are not free, with half a sentence why.
        unsettled: whether a write to a RayJob has an unknown outcome.
        doubts: sentences of the ledger.
    """

    cron: RayCronJob
    design: ValidCronJob | Problem
    runs: tuple[Run, ...] = ()
    taken: Mapping[str, str] = field(default_factory=dict[str, str])
    unsettled: bool = False
    doubts: tuple[str, ...] = ()

    @property
    def status(self) -> dict[str, Any]:
        """The present status."""
        return status_of(self.cron)

    @property
    def conditions(self) -> list[dict[str, Any]]:
        """The present conditions."""
        return self.status.get("conditions") or []


def observe_cron_job(
    key: str, reads: Reads, design_of: Callable[[RayCronJob], ValidCronJob | Problem]
) -> Observation | None:
    """Read the RayCronJob `namespace/name` and its RayJobs; None if it does not exist."""
    cron = reads.get(RAYCRONJOBS, key)
    if cron is None:
        return None
    meta = cron.metadata
    if not reads.serves(RAYJOBS):  # the server will say so when one is to be made
        return Observation(cron, design_of(cron))
    runs = sorted((Run.of(job) for job in reads.by_index(RAYJOBS, "owner", meta.uid)), key=_order)
    unreadable = reads.unreadable(RAYJOBS, meta.namespace)
    foreign = {
        job.metadata.name: f"belongs to {_owner_of(job)}"
        for job in reads.by_index(RAYJOBS, CRON_JOB_INDEX, key)
        if not is_owned_by(job.metadata, meta.uid)
    }
    return Observation(
        cron,
        design_of(cron),
        runs=tuple(runs),
        taken=foreign | {name: f"cannot be read: {why}" for name, why in unreadable.items()},
        unsettled=SCOPE in reads.unsettled_scopes(meta.uid),
        doubts=reads.doubts(meta.uid),
    )


def _order(run: Run) -> Any:
    return run.order


def _owner_of(job: RayJob) -> str:
    owner = job.metadata.controller
    return f"{owner.kind} {owner.name} (uid {owner.uid})" if owner else "nobody"
