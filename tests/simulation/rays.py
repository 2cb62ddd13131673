"""Everything about RayJobs in one life: their Rays, their referee, and what is wrong at the end."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from controller.ray.api import RAYJOBS
from devcluster.apiserver.store import StoredEvent
from tests.integration.harness import World
from tests.integration.rays import Rays
from tests.ray.dashboard.simulated import Course
from tests.simulation.job_outcome import job_shortcomings
from tests.simulation.job_referee import JobReferee
from tests.simulation.operators import WitnessedJobKind
from tests.simulation.scenario import Job
from tests.simulation.troubled_rays import TroubledRays
from tests.simulation.witnessed_ray import WitnessedRay, course_of

Object = dict[str, Any]

MADE_OF = ("rayclusters.ray.io", "jobs.batch", "services")


class JobsOfLife(TroubledRays):
    """The RayJobs of a world and their Rays.

    Args:
        strict: whether there is only one operator at a time.
        calm: whether it sees all that happens.

    Attributes:
        kinds: one for each operator that was started.
    """

    def __init__(
        self, world: World, jobs: dict[str, Job], violations: list[str], *, strict: bool, calm: bool
    ) -> None:
        self._jobs = jobs
        self._rays = Rays(world)
        super().__init__(world, WitnessedRay(live=self._rays.ray.live, recording=False))
        self._referee = JobReferee(world.loop, self.ray, violations, strict=strict, calm=calm)
        self.ray.course = self._course
        self.ray.on_accepted = self._referee.accepted
        self._rays.ray = self.ray
        self._rays.submitters_fail = self._submitter_fails
        self.kinds: list[WitnessedJobKind] = []

    async def open(self) -> None:
        await self._rays.open()

    def saw(self, event: StoredEvent) -> None:
        self._referee(event)
        super().saw(event)

    def kind(self, wall: Callable[[], datetime]) -> WitnessedJobKind:
        kind = WitnessedJobKind(self._referee, self.actors(wall))
        self.kinds.append(kind)
        return kind

    def shortcomings(self, objects: Callable[[str], list[Object]]) -> list[str]:
        made = {table: objects(table) for table in MADE_OF}
        return job_shortcomings(objects(str(RAYJOBS)), made, self.ray)

    def leaks(self) -> list[str]:
        """What the actors of the last operator still are about, though all jobs are over.

        A job that failed without Ray's word is asked about, and to stop, for ten minutes.
        """
        left = self.kinds[-1].actors.statistics()
        busy = left.waiting or max(left.actors, left.commands) > left.probes
        return [f"actors are left: {left}"] if busy else []

    def _course(self, body: dict[str, Any]) -> Course:
        found = self._created(body["submission_id"])
        return Course() if found is None else course_of(found[0].fate(found[1]))

    def _submitter_fails(self, job_id: str) -> bool:
        found = self._created(job_id)
        return found is not None and found[0].submitter_fails

    def _created(self, job_id: str) -> tuple[Job, int] | None:
        """What was created, and which of its attempts this is."""
        found = self._referee.owner_of(job_id)
        return None if found is None else (self._jobs[found[0]], found[1])
