"""Commands go through the fence that stands in front of every write."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from controller.ray.dashboard import CommandDone, CommandExpired, Head, JobStatus, Submitted
from tests.ray.dashboard.kit import HEAD, world
from tests.ray.dashboard.simulated import NEVER, Course, Fault, SimulatedRay
from tests.runtime.fences import SwitchableFence


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
        assert it.outcome(submit) == CommandDone(Submitted("job"))
        assert it.ray.requests(method="POST") == 2


async def test_a_command_that_was_never_sent_says_why():
    async with world(fence=SwitchableFence(leads=False)) as it:
        it.watch()
        command = it.submit(within=10)
        await asyncio.sleep(20)
        outcome = it.outcome(command)
        assert isinstance(outcome, CommandExpired)
        assert "this process does not lead" in outcome.message


async def test_probes_need_no_lead():
    async with world(fence=SwitchableFence(leads=False)) as it:
        it.ray.add(HEAD, "job", course=Course(pending=0, running=NEVER))
        it.watch()
        await asyncio.sleep(1)
        assert it.seen().value.status is JobStatus.RUNNING


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
