"""Actors with a simulated Ray behind them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from controller.ray.dashboard import Head, JobSubmission
from controller.ray.dashboard.actors import ControllerDashboards, DashboardActors
from controller.ray.dashboard.commands import CommandOutcome, HeadCommand, StopJob, SubmitJob
from controller.ray.dashboard.probes import JobProbe, ProbeObservation, ProbeSubscription
from tests.ray.dashboard.simulated import SimulatedRay

HEAD = Head("cluster", "pod", 0, "default", "head-svc")
JOB = JobProbe("job")


def head(name: str = "cluster", **changes: Any) -> Head:
    return replace(HEAD, **{"cluster_uid": name, "service": name, **changes})


@dataclass
class World:
    """Actors, the Ray they talk to, and the keys that were woken, with the time.

    `dashboards` is the handle of the controller whose keys these are; `joined` makes another one.
    """

    ray: SimulatedRay
    actors: DashboardActors
    dashboards: ControllerDashboards
    woken: list[tuple[float, str]] = field(default_factory=list)

    def attach(self) -> None:
        loop = asyncio.get_running_loop()
        self.dashboards.start(lambda key: self.woken.append((loop.time(), key)))

    def joined(self, controller: str) -> World:
        """The same as another controller sees it."""
        other = World(self.ray, self.actors, self.actors.for_controller(controller))
        other.attach()
        return other

    def watch(self, key: str = "ns/job", at: Head = HEAD, *probes: Any) -> None:
        self.dashboards.sync(key, tuple(ProbeSubscription(at, probe) for probe in probes or (JOB,)))

    def leave(self, key: str = "ns/job") -> None:
        self.dashboards.sync(key, ())

    def submit(
        self, key: str = "ns/job", at: Head = HEAD, *, job_id: str = "job", within: float = 60
    ) -> str:
        command = SubmitJob(
            f"submit-{job_id}", self.in_(within), JobSubmission("python job.py", job_id)
        )
        self.dashboards.submit(key, (HeadCommand(at, command),))
        return command.id

    def stop(
        self, key: str = "ns/job", at: Head = HEAD, *, job_id: str = "job", within: float = 60
    ) -> str:
        command = StopJob(f"stop-{job_id}", self.in_(within), job_id)
        self.dashboards.submit(key, (HeadCommand(at, command),))
        return command.id

    async def until(self, condition: Callable[[], bool]) -> None:
        """Let time pass until `condition` holds."""
        while not condition():  # noqa: ASYNC110  virtual time
            await asyncio.sleep(0.01)

    def in_(self, seconds: float) -> Any:
        return self.ray.wall() + timedelta(seconds=seconds)

    def seen(self, at: Head = HEAD, probe: Any = JOB) -> ProbeObservation:
        observation = self.actors.observation(at, probe)
        assert observation is not None
        return observation

    def outcome(self, command_id: str, at: Head = HEAD) -> CommandOutcome | None:
        return self.dashboards.outcome(at, command_id)

    def wakes(self, key: str = "ns/job") -> int:
        return sum(each == key for _, each in self.woken)


@asynccontextmanager
async def world(ray: SimulatedRay | None = None, **options: Any) -> AsyncIterator[World]:
    ray = ray or SimulatedRay()
    loop = asyncio.get_running_loop()
    actors = DashboardActors(
        ray.connect, clock=loop, wall=ray.wall, rng=random.Random(1), **options
    )
    made = World(ray, actors, actors.for_controller("test"))
    made.attach()
    try:
        yield made
    finally:
        await actors.aclose()
    assert len(asyncio.all_tasks()) == 1, "a task outlived the actors"
