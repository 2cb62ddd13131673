"""Actors of dashboards: what they find, when they say so, and what they do once."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from controller.ray.dashboard import JobSubmission
from controller.ray.dashboard.commands import (
    CommandDone,
    CommandExpired,
    CommandRefused,
    HeadCommand,
    SubmitJob,
)
from controller.ray.dashboard.probes import HealthProbe, JobProbe
from controller.ray.dashboard.responses import JobInfo, JobStatus, NoSuchJob, RayVersion
from tests.ray.dashboard.kit import HEAD, JOB, head, world
from tests.ray.dashboard.simulated import NEVER, STOPPING, Course, Fault, SimulatedRay


async def test_nothing_is_known_before_the_first_answer():
    async with world() as it:
        assert it.actors.observation(HEAD, JOB) is None
        it.watch()
        assert it.seen().value is None


async def test_a_job_is_asked_about_soon_when_its_object_was_looked_at():
    async with world() as it:
        it.ray.add(HEAD, "job", course=Course(running=NEVER))
        it.watch()
        await asyncio.sleep(3600.5)
        before = it.ray.requests()
        it.watch()
        await asyncio.sleep(3)
        assert it.ray.requests() == before + 1
        for _ in range(100):  # however often it is looked at
            it.watch()
            await asyncio.sleep(0.1)
        assert it.ray.requests() - before <= 5


@pytest.mark.parametrize("fault", [each for each in Fault if each is not Fault.NO_CONTROLLER])
async def test_failures_are_told_when_there_are_enough_of_them(fault: Fault):
    async with world() as it:
        it.ray.add(HEAD, "job", course=Course(pending=0, running=NEVER))
        it.watch()
        await asyncio.sleep(1)
        known, wakes = it.seen().value, it.wakes()
        it.ray.fault(fault)
        failing_from = it.ray.wall()
        await asyncio.sleep(4)
        assert it.seen().failing_since is None, "one failure decides nothing"
        await asyncio.sleep(40)
        seen = it.seen()
        assert seen.value == known
        assert timedelta() <= seen.failing_since - failing_from < timedelta(seconds=4)
        assert seen.error
        assert it.wakes() == wakes + 1 or it.wakes() == wakes + 2
        told = it.wakes()
        await asyncio.sleep(300)
        assert it.wakes() == told, "that it still fails is no news"
        assert it.seen().failing_since == seen.failing_since
        it.ray.fault(None)
        await asyncio.sleep(40)
        assert it.seen().failing_since is None
        assert not it.seen().error
        assert it.wakes() > told


async def test_a_silent_dashboard_is_asked_ever_less_often():
    async with world() as it:
        it.ray.fault(Fault.SILENT)
        it.watch("ns/job", HEAD, *(JobProbe(f"job-{n}") for n in range(50)))
        await asyncio.sleep(600)
        assert it.ray.requests() < 30, "the whole head rests, not each probe by itself"
        for n in range(50):
            assert it.seen(probe=JobProbe(f"job-{n}")).failing_since is not None


async def test_a_run_of_failures_goes_on_when_silence_turns_into_errors():
    async with world() as it:
        it.watch("ns/job", HEAD, JOB, JobProbe("other"))
        it.ray.fault(Fault.SILENT)
        await asyncio.sleep(60)
        since = it.seen(probe=JobProbe("other")).failing_since
        it.ray.fault(Fault.ERROR)
        await asyncio.sleep(120)
        assert it.seen(probe=JobProbe("other")).failing_since == since


async def test_health_is_what_version_and_gcs_say():
    async with world() as it:
        it.watch("ns/job", HEAD, HealthProbe())
        await asyncio.sleep(1)
        assert it.seen(probe=HealthProbe()).value == RayVersion("2.60.0")


async def test_a_submission_is_made_once_however_often_it_is_handed_over():
    async with world() as it:
        it.watch()
        for _ in range(5):
            command = it.submit()
            await asyncio.sleep(0.5)
        assert it.ray.submissions() == 1
        assert it.outcome(command) == CommandDone()
        assert it.ray.requests(method="POST") == 1


async def test_a_submission_whose_answer_was_lost_is_made_once():
    async with world() as it:
        it.ray.fault(Fault.LOSES_ANSWERS)
        it.watch()
        command = it.submit()
        await asyncio.sleep(5)
        assert it.outcome(command) is None
        it.ray.fault(None)
        await asyncio.sleep(10)
        assert it.outcome(command) == CommandDone()
        assert it.ray.submissions() == 1


async def test_an_answer_to_a_question_from_before_a_command_does_not_count():
    async with world(SimulatedRay(latency=lambda _: 1.0)) as it:
        it.watch()
        await asyncio.sleep(2.5)  # the second question, which would be believed, is under way
        assert it.ray.in_flight == 1
        it.submit()
        seen = []
        for _ in range(50):
            seen.append(it.seen().value)
            await asyncio.sleep(0.1)
        assert NoSuchJob() not in seen
        assert seen[-1] is not None


async def test_a_refusal_is_final():
    async with world() as it:
        it.watch()
        command = SubmitJob("c", it.in_(60), JobSubmission("", "job"))
        it.dashboards.submit("ns/job", (HeadCommand(HEAD, command),))
        await asyncio.sleep(30)
        outcome = it.outcome("c")
        assert isinstance(outcome, CommandRefused)
        assert "entrypoint" in outcome.message
        assert it.ray.requests(method="POST") == 1


@pytest.mark.parametrize("fault", [Fault.REFUSES, Fault.SILENT, Fault.ERROR, Fault.FORBIDDEN])
async def test_a_command_expires_at_its_deadline_and_says_why(fault: Fault):
    async with world() as it:
        it.ray.fault(fault)
        it.watch()
        command = it.submit(within=30)
        started = it.ray.now()
        await it.until(lambda: it.outcome(command) is not None)
        assert 29 <= it.ray.now() - started <= 33
        outcome = it.outcome(command)
        assert isinstance(outcome, CommandExpired)
        assert len(outcome.message) > len("its time is up; the last attempt: ")
        it.ray.fault(None)
        await asyncio.sleep(120)
        assert it.ray.submissions() == 0


async def test_a_stop_is_done_when_ray_says_how_the_job_ended_or_knows_no_such_job():
    async with world() as it:
        it.ray.add(HEAD, "job", course=Course(running=NEVER))
        it.watch()
        it.stop()
        it.stop(job_id="unknown")
        await asyncio.sleep(STOPPING / 2)
        assert it.outcome("stop-job") is None, "Ray has accepted it, and the job still runs"
        assert it.outcome("stop-unknown") == CommandDone(NoSuchJob())
        await asyncio.sleep(STOPPING + 5)
        outcome = it.outcome("stop-job")
        assert isinstance(outcome, CommandDone)
        assert isinstance(outcome.value, JobInfo)
        assert outcome.value.status is JobStatus.STOPPED
        assert it.seen().failing_since is None


async def test_a_job_that_never_stops_is_asked_again_and_never_counts_as_stopped():
    async with world() as it:
        it.ray.add(HEAD, "job", course=Course(pending=NEVER))
        it.watch()
        it.stop(within=600)
        await asyncio.sleep(590)
        assert it.outcome("stop-job") is None
        assert 10 < it.ray.requests(method="POST") < 200, "again, with pauses"
        await asyncio.sleep(60)
        assert isinstance(it.outcome("stop-job"), CommandExpired)


async def test_a_submission_is_given_up_when_nobody_waits_for_the_job_any_more():
    async with world() as it:
        it.ray.fault(Fault.ERROR)
        it.watch()
        it.submit(within=3600)
        await asyncio.sleep(5)
        it.leave()
        it.ray.fault(None)
        await asyncio.sleep(60)
        assert it.ray.submissions() == 0
        assert it.actors.statistics().actors == 0


async def test_a_stop_is_given_up_with_the_object_that_waits_for_it():
    async with world() as it:
        it.ray.add(HEAD, "job", course=Course(running=NEVER))
        it.ray.fault(Fault.ERROR)
        it.watch()
        it.stop()
        await asyncio.sleep(5)
        it.leave()
        await asyncio.sleep(1)
        assert it.actors.statistics().actors == 0


async def test_a_stop_ends_the_submission_of_the_same_job():
    async with world() as it:
        it.ray.fault(Fault.ERROR)
        it.watch()
        it.submit(within=3600)
        await asyncio.sleep(5)
        it.stop()
        await asyncio.sleep(5)
        assert isinstance(it.outcome("submit-job"), CommandExpired)
        it.ray.fault(None)
        await asyncio.sleep(60)
        assert it.outcome("stop-job") == CommandDone(NoSuchJob())
        assert it.ray.submissions() == 0


async def test_the_token_is_read_again_when_it_is_not_accepted():
    tokens = iter(["old", "new"])
    ray = SimulatedRay(token="new", client_token=lambda: next(tokens))
    async with world(ray) as it:
        ray.add(HEAD, "job")
        it.watch()
        await asyncio.sleep(10)
        assert it.seen().value is not None
        assert ray.connections == 2
        assert [each.token for each in ray.asked[:2]] == ["old", "new"]


async def test_a_client_that_cannot_be_made_is_a_dashboard_that_fails():
    async with world() as it:
        it.actors._sender._connect = lambda _head: asyncio.sleep(3600)
        it.watch()
        await asyncio.sleep(120)
        assert "no connection" in it.seen().error


@pytest.mark.parametrize("error", [ZeroDivisionError, asyncio.CancelledError])
async def test_an_error_that_nobody_foresaw_ends_no_actor(error: type[BaseException]):
    async with world() as it:
        connect, broken = it.ray.connect, True

        async def odd(at: Any) -> Any:
            if broken:
                raise error
            return await connect(at)

        it.actors._sender._connect = odd
        it.watch()
        await asyncio.sleep(30)
        assert error.__name__ in it.seen().error
        broken = False
        await asyncio.sleep(60)
        assert it.seen().value == NoSuchJob()


async def test_nothing_is_left_of_what_nobody_wants():
    async with world() as it:
        for n in range(20):
            it.watch(f"ns/{n}", HEAD, JobProbe(f"job-{n}"))
            it.submit(f"ns/{n}", job_id=f"job-{n}")
        await asyncio.sleep(30)
        assert it.outcome("submit-job-3") is not None
        it.leave("ns/3")
        assert it.outcome("submit-job-3") is None
        actor = it.actors._actors[HEAD]
        assert len(actor._ended) == 19
        for n in range(20):
            it.leave(f"ns/{n}")
        assert not it.actors._actors
        assert not it.actors._heads
        assert not actor._ended
        assert not len(it.actors._due)


async def test_a_question_under_way_ends_with_its_interest():
    async with world() as it:
        it.ray.fault(Fault.SILENT)
        it.watch()
        await asyncio.sleep(0.5)
        assert it.ray.in_flight == 1
        it.leave()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert it.ray.in_flight == 0
        assert sum(it.actors.statistics().in_flight.values()) == 0


async def test_closed_actors_do_nothing_more():
    async with world() as it:
        it.watch()
        await it.actors.aclose()
        asked = it.ray.requests()
        it.watch("ns/other", head("other"))
        it.submit()
        await asyncio.sleep(60)
        assert it.ray.requests() == asked


async def test_an_object_that_moves_when_it_is_its_old_heads_turn_is_followed():
    async with world() as it:
        for number in range(2000):
            it.watch(f"ns/{number}", head(f"head-{number}"))
        await asyncio.sleep(0.3)
        waiting = it.ray.requests()
        for number in range(waiting, waiting + 40):
            asyncio.get_running_loop().block(0.02)
            it.watch(f"ns/{number}", head(f"new-{number}"))
            await asyncio.sleep(0)
        await asyncio.sleep(60)
        assert it.ray.requests(cluster=f"new-{waiting}")
