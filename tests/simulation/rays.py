"""Everything about RayJobs in one life: their Rays, their referee, and what is wrong at the end."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from controller.ray.api import RAYJOBS
from controller.ray.dashboard import DashboardActors
from tests.integration.rays import Rays
from tests.ray.dashboard.simulated import Course
from tests.simulation.job_outcome import job_shortcomings
from tests.simulation.job_referee import JobReferee
from tests.simulation.operators import WitnessedJobKind
from tests.simulation.scenario import LoseRayJobs
from tests.simulation.witnessed_ray import WitnessedRay, course_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from controller.devcluster.apiserver.store import StoredEvent
    from tests.integration.harness import World
    from tests.simulation.scenario import Job, RayFault

Object = dict[str, Any]

MADE_OF = ("rayclusters.ray.io", "jobs.batch", "services")


class JobsOfLife:
    """The RayJobs of a world and their Rays.

    Args:
        world: where.
        jobs: what was created, by uid.
        violations: where the referee writes.
        strict: whether there is only one operator at a time.

    Attributes:
        ray: all Rays.
        kinds: one for each operator that was started.
    """

    def __init__(
        self, world: World, jobs: dict[str, Job], violations: list[str], *, strict: bool
    ) -> None:
        self._world = world
        self._jobs = jobs
        self._rays = Rays(world)
        self.ray = WitnessedRay(live=self._rays.ray.live, recording=False)
        self._referee = JobReferee(world.loop, self.ray, violations, strict=strict)
        self.ray.course = self._course
        self.ray.on_accepted = self._referee.accepted
        self._rays.ray = self.ray
        self._rays.submitters_fail = self._submitter_fails
        self._faults: list[RayFault] = []
        self.kinds: list[WitnessedJobKind] = []

    async def open(self) -> None:
        """Have submitters played."""
        await self._rays.open()

    def act(self, action: RayFault | LoseRayJobs) -> None:
        """Let something go wrong in all Rays."""
        if isinstance(action, LoseRayJobs):
            self.ray.forget_jobs()
            return
        self._faults.append(action)
        self._misbehave()
        self._world.loop.call_later(action.lasts, self._end, action)

    def make_peace(self) -> None:
        """From now on all dashboards answer."""
        self._faults.clear()
        self._misbehave()

    def _end(self, fault: RayFault) -> None:
        if fault in self._faults:
            self._faults.remove(fault)
            self._misbehave()

    def _misbehave(self) -> None:
        self.ray.misbehave([fault.kind for fault in self._faults])

    def saw(self, event: StoredEvent) -> None:
        """A transition of the store."""
        self._referee(event)
        if event.table == "pods" and _is_head(event.current.object):
            self.ray.saw(event)

    def kind(self, wall: Callable[[], datetime]) -> WitnessedJobKind:
        """For an operator that starts now and has this clock."""
        actors = DashboardActors(
            self.ray.connect,
            clock=self._world.loop,
            wall=wall,
            rng=random.Random(self._world.rng.random()),
        )
        kind = WitnessedJobKind(self._referee, actors)
        self.kinds.append(kind)
        return kind

    def shortcomings(self, objects: Callable[[str], list[Object]]) -> list[str]:
        """What is not as it should be; `objects` gives all of a table."""
        made = {table: objects(table) for table in MADE_OF}
        return job_shortcomings(objects(str(RAYJOBS)), made, self.ray)

    def leaks(self) -> list[str]:
        """What the actors of the last operator still are about, though all jobs are over."""
        left = self.kinds[-1].actors.statistics()
        busy = left.actors, left.probes, left.commands, left.waiting
        return [f"actors are left: {left}"] if any(busy) else []

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


def _is_head(pod: Object) -> bool:
    return (pod["metadata"].get("labels") or {}).get("ray.io/node-type") == "head"
