"""Several controllers that use the dashboards of one process."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import ClassVar

import pytest

from controller.ray.dashboard import Head
from controller.ray.dashboard.client import DashboardClient
from controller.ray.dashboard.commands import Command, CommandDone, CommandExpired, HeadCommand
from controller.ray.dashboard.probes import CommandValue, HealthProbe, Probe
from controller.ray.dashboard.responses import JobStatus
from tests.ray.dashboard.kit import HEAD, JOB, World, head, world
from tests.ray.dashboard.simulated import NEVER, Course, Fault, SimulatedRay
from tests.runtime.fences import SwitchableFence


def a_long_job(it: World, at: Head = HEAD) -> None:
    it.ray.add(at, "job", course=Course(pending=0, running=NEVER))


async def test_a_controller_that_has_ended_wants_nothing_more():
    async with world() as it:
        other = it.joined("other")
        a_long_job(it, head("another"))
        it.watch("default/a", head("another"))
        it.watch("default/b")
        it.submit("default/b", job_id="never")
        other.watch("default/b")
        await it.dashboards.aclose()
        assert it.actors.statistics().actors == 1
        it.watch("default/c", head("late"))
        it.submit("default/c", head("late"), job_id="never")
        await asyncio.sleep(30)
        assert it.ray.requests(cluster="another") + it.ray.requests(cluster="late") == 0
        assert it.ray.submissions("never") == 0


async def test_a_command_under_way_ends_with_its_controller_and_delays_no_other():
    async with world() as it:
        other = it.joined("other")
        it.ray.fault(Fault.SILENT)
        it.watch("default/a")
        other.watch("default/a")
        it.submit("default/a", within=3600)
        await it.until(lambda: it.ray.requests(method="POST") == 1)
        await it.dashboards.aclose()
        assert it.actors._actors[HEAD].under_way in {None, JOB}, "only the other one asks"
        it.ray.fault(None)
        a_long_job(it)
        await asyncio.sleep(5)
        assert other.seen().value.status is JobStatus.RUNNING
        assert it.actors.statistics().commands == 0


async def test_a_stop_that_outlived_its_interest_ends_with_its_controller():
    async with world() as it:
        it.joined("other")
        it.ray.fault(Fault.ERROR)
        it.watch()
        it.stop()
        it.leave()
        await it.dashboards.aclose()
        assert it.actors.statistics().actors == it.actors.statistics().commands == 0


async def test_two_controllers_may_choose_the_same_id_for_their_commands():
    async with world() as it:
        other = it.joined("other")
        it.watch("default/a")
        other.watch("default/a")
        it.submit("default/a")
        await asyncio.sleep(1)
        assert it.outcome("submit-job") is not None
        assert other.outcome("submit-job") is None
        other.submit("default/a")
        await asyncio.sleep(1)
        assert other.outcome("submit-job") == CommandDone()
        other.leave("default/a")
        assert it.outcome("submit-job") == CommandDone()


async def test_a_handle_from_after_the_end_of_its_controller_is_a_new_one():
    async with world() as it:
        a_long_job(it)
        await it.dashboards.aclose()
        again = it.joined("test")
        again.watch("default/a")
        await asyncio.sleep(1)
        assert again.wakes("default/a") == 1


async def test_no_command_is_sent_while_this_process_does_not_lead():
    fence = SwitchableFence(leads=False)
    async with world(fence=fence) as it:
        it.ray.add(HEAD, "running", course=Course(pending=0, running=NEVER))
        it.watch()
        submit, stop = it.submit(), it.stop(job_id="running")
        await asyncio.sleep(30)
        assert it.ray.requests(method="POST") == 0
        assert it.outcome(submit) is it.outcome(stop) is None
        fence.leads = True
        await asyncio.sleep(30)
        assert it.outcome(submit) == CommandDone()
        assert it.ray.requests(method="POST") == 2


async def test_a_command_that_was_never_sent_says_why():
    async with world(fence=SwitchableFence(leads=False)) as it:
        it.watch()
        command = it.submit(within=10)
        await asyncio.sleep(20)
        outcome = it.outcome(command)
        assert isinstance(outcome, CommandExpired)
        assert "this process does not lead" in outcome.message


async def test_a_closed_fence_is_no_failure_of_the_dashboard():
    async with world(fence=SwitchableFence(leads=False)) as it:
        it.watch()
        it.submit(within=60)
        await asyncio.sleep(50)
        assert it.seen().failing_since is None
        assert it.actors.statistics().failing == 0


async def test_a_lead_that_is_lost_while_the_token_is_read_stops_the_command():
    fence = SwitchableFence()
    ray = SimulatedRay()

    async def slowly(head: Head) -> object:
        await asyncio.sleep(1)
        return await ray.connect(head)

    async with world(ray, fence=fence) as it:
        it.actors._sender._connect = slowly
        it.submit(within=60)
        await asyncio.sleep(0.5)
        fence.leads = False
        await asyncio.sleep(30)
        assert it.ray.requests() == 0


@pytest.mark.parametrize("left", [0.25, 1.5])
async def test_a_command_takes_no_longer_than_the_lead_is_sure(left: float):
    fence = SwitchableFence()
    async with world(SimulatedRay(timeout=10), fence=fence) as it:
        it.watch()
        await asyncio.sleep(5)
        it.ray.fault(Fault.SILENT)
        it.stop(within=timedelta(hours=1).total_seconds())
        fence.left = left
        await it.until(lambda: it.ray.in_flight == 1)
        began = it.ray.now()
        await it.until(lambda: it.ray.in_flight == 0)
        assert it.ray.now() - began == pytest.approx(left, abs=0.05)


# -- commands ------------------------------------------------------------------------------------


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


async def test_a_command_ends_with_the_subscription_of_its_object():
    async with world() as it:
        it.watch()
        it.ray.fault(Fault.ERROR)
        deploy(it, "v1")
        await asyncio.sleep(5)
        assert it.actors.statistics().commands == 1
        it.leave()
        await it.until(lambda: it.actors.statistics().actors == 0)
        it.ray.fault(None)
        before = len(it.ray.asked)
        await asyncio.sleep(40)
        assert len(it.ray.asked) == before


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


async def test_a_probe_that_was_due_before_a_command_does_not_count_after_it():
    async with world() as it:
        it.watch("ns/job", HEAD, HealthProbe())
        await asyncio.sleep(100)
        it.watch("ns/job", HEAD, HealthProbe())
        command = deploy(it)
        await it.until(lambda: it.outcome(command) is not None)
        assert it.seen(probe=HealthProbe()).value is None
        await asyncio.sleep(60)
        assert it.seen(probe=HealthProbe()).value is not None
