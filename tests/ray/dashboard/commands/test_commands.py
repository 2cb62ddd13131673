"""A command that is not about a job: the actor knows only what the class says of itself."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import ClassVar

from controller.ray.dashboard import (
    Command,
    CommandDone,
    CommandExpired,
    DashboardClient,
    HeadCommand,
    HealthProbe,
    Probe,
)
from controller.ray.dashboard.probes import CommandValue
from tests.ray.dashboard.kit import HEAD, JOB, World, world
from tests.ray.dashboard.simulated import NEVER, Course, Fault


@dataclass(frozen=True, slots=True)
class Deploy(Command):
    """Put a config; only the newest counts. `about` is what it changes."""

    name: ClassVar[str] = "deploy"

    about: tuple[Probe, ...] = (HealthProbe(),)

    @property
    def invalidates(self) -> tuple[Probe, ...]:
        return self.about

    def supersedes(self, other: Command) -> bool:
        return type(other) is type(self)

    async def send(self, client: DashboardClient) -> CommandValue:
        return await client.stop(self.id)


@dataclass(frozen=True, slots=True)
class AttachedDeploy(Deploy):
    """One that is pointless without its object."""

    needs_subscriber: ClassVar[bool] = True


def deploy(it: World, name: str = "v1", **changes: object) -> str:
    command = replace(Deploy(name, it.in_(600)), **changes)
    it.dashboards.submit("ns/job", (HeadCommand(HEAD, command),))
    return name


async def test_a_command_invalidates_the_probes_that_it_names_and_no_others():
    async with world() as it:
        it.ray.add(HEAD, "job", course=Course(pending=0, running=NEVER))
        it.watch("ns/job", HEAD, JOB, HealthProbe())
        await asyncio.sleep(1)
        it.ray.fault(Fault.ERROR)
        deploy(it)
        assert it.seen(probe=HealthProbe()).value is None
        assert it.seen().value is not None
        await asyncio.sleep(2)
        asked = sum("healthz" in each.path for each in it.ray.asked)
        await asyncio.sleep(20)
        assert sum("healthz" in each.path for each in it.ray.asked) == asked
        it.ray.fault(None)
        await it.until(lambda: it.outcome("v1") is not None)
        await asyncio.sleep(1)
        assert it.seen(probe=HealthProbe()).value is not None


async def test_a_command_may_invalidate_several_probes():
    async with world() as it:
        it.watch("ns/job", HEAD, JOB, HealthProbe())
        await asyncio.sleep(5)
        it.ray.fault(Fault.ERROR)
        deploy(it, about=(JOB, HealthProbe()))
        assert it.seen().value is it.seen(probe=HealthProbe()).value is None
        it.ray.fault(None)
        await it.until(lambda: it.outcome("v1") is not None)
        await asyncio.sleep(5)
        assert it.seen().value is not None
        assert it.seen(probe=HealthProbe()).value is not None


async def test_a_failed_attempt_counts_for_each_probe_that_the_command_invalidates():
    async with world() as it:
        it.watch("ns/job", HEAD, JOB, HealthProbe())
        it.ray.fault(Fault.ERROR)
        deploy(it, about=(JOB, HealthProbe()))
        await asyncio.sleep(20)
        assert it.seen().failing_since is not None
        assert it.seen(probe=HealthProbe()).failing_since is not None


async def test_a_newer_command_ends_the_ones_that_it_supersedes():
    async with world() as it:
        it.watch()
        it.ray.fault(Fault.ERROR)
        deploy(it, "v1")
        submit = it.submit()
        await asyncio.sleep(5)
        deploy(it, "v2")
        await asyncio.sleep(5)
        old = it.outcome("v1")
        assert isinstance(old, CommandExpired)
        assert "superseded by a deploy command" in old.message
        assert it.outcome(submit) is None, "it was not superseded"
        it.ray.fault(None)
        before = len(it.ray.asked)
        await asyncio.sleep(40)
        assert isinstance(it.outcome("v2"), CommandDone)
        assert not any("v1" in each.path for each in it.ray.asked[before:])


async def test_only_a_command_that_needs_a_subscriber_ends_without_one():
    async with world() as it:
        it.watch()
        it.ray.fault(Fault.ERROR)
        deploy(it, "v1")
        it.dashboards.submit("ns/job", (HeadCommand(HEAD, AttachedDeploy("v2", it.in_(600))),))
        await asyncio.sleep(5)
        assert it.actors.statistics().commands == 2
        it.leave()
        assert it.actors.statistics().commands == 1
        it.ray.fault(None)
        await asyncio.sleep(40)
        assert any("v1" in each.path for each in it.ray.asked)
        assert it.actors.statistics().actors == 0


async def test_a_command_is_named_in_the_metrics_as_its_class_says():
    told: list[tuple[str, ...]] = []

    class Metrics:
        def record_request(self, request: str, result: str, seconds: float) -> None:
            told.append((request, result))

        def record_command(self, command: str, outcome: str) -> None:
            told.append((command, outcome))

    async with world(metrics=Metrics()) as it:
        it.watch()
        deploy(it)
        await asyncio.sleep(1)
        assert ("deploy", "answered") in told
        assert ("deploy", "done") in told
