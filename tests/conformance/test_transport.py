"""Which requests are retried, and when."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from controller.kube import errors
from controller.kube.credentials import StaticCredentials
from controller.kube.http import HttpTransport, Timeouts
from controller.kube.resources import PODS
from controller.kube.source import ResourceSource
from controller.kube.transport import MAX_ATTEMPTS, Request
from informers import Disconnected, Expired, Failed, Malformed, Throttled
from tests.kube.fakes import POD, FakeTransport, answer, chunks, client, status_body
from tests.kube.servers import HoldingServer

RESET = errors.OutcomeUnknown("connection reset by peer")


def busy(code: int, retry_after: str = "", reason: str = ""):
    fields = {"retry_after": retry_after} if retry_after else {}
    return lambda: answer(code, status_body(code, reason), **fields)


def overloaded(code: int, retry_after: str):
    """As Priority and Fairness answers, in front of all handlers."""
    text = b"Too many requests, please try again later.\n"
    return lambda: answer(code, text, content_type="text/plain", retry_after=retry_after)


def good():
    return answer(200, POD)


async def get(transport: FakeTransport, flow: str = "", **options):
    return await client(transport, **options).for_flow(flow).get(PODS, "default", "a")


async def create(transport: FakeTransport, flow: str = "", **options):
    api = client(transport, **options).for_flow(flow)
    return await api.create(PODS, "default", {"kind": "Pod"})


@pytest.mark.parametrize("send", [get, create])
@pytest.mark.parametrize("code", [429, 500, 502, 503])
async def test_a_429_or_5xx_is_repeated_only_with_retry_after(send, code: int):
    told_to_wait = FakeTransport(busy(code, "2"), good)
    await send(told_to_wait)
    assert told_to_wait.times == [0.0, 2.0]

    not_told = FakeTransport(busy(code), good)
    with pytest.raises(errors.StatusError):
        await send(not_told)
    assert len(not_told.requests) == 1


@pytest.mark.parametrize("send", [get, create])
async def test_the_wait_before_a_repetition_is_cut_to_the_longest_pause(send):
    told_to_wait = FakeTransport(busy(429, "50"), good)
    await send(told_to_wait, longest_pause=2.0)
    assert told_to_wait.times == [0.0, 2.0]


@pytest.mark.parametrize("code", [400, 403, 404, 409, 410, 422])
async def test_other_statuses_are_never_repeated(code: int):
    transport = FakeTransport(busy(code, "1"), good)
    with pytest.raises(errors.StatusError):
        await get(transport)
    assert len(transport.requests) == 1


@pytest.mark.parametrize("header", ["soon", "-1", "1.5", "Wed, 21 Oct 2026 07:28:00 GMT", "²"])
async def test_an_unreadable_retry_after_is_none(header: str):
    transport = FakeTransport(busy(503, header), good)
    with pytest.raises(errors.ServerError):
        await get(transport)
    assert len(transport.requests) == 1


@pytest.mark.parametrize(("code", "reason"), [(504, "Timeout"), (500, "ServerTimeout")])
async def test_a_time_out_behind_the_server_is_repeated_for_reads_only(code, reason):
    await get(FakeTransport(busy(code, "1", reason), good))
    write = FakeTransport(busy(code, "1", reason), good)
    with pytest.raises(errors.StatusError) as caught:
        await create(write)
    assert len(write.requests) == 1
    assert errors.may_have_happened(caught.value)


async def test_the_body_of_a_refused_answer_is_read_and_closed_before_the_repetition():
    closed_at: list[int] = []
    transport = FakeTransport(lambda: (429, {"retry-after": "1"}, refused()), good)

    async def refused():
        try:
            yield b"{"
            yield b"}"
        finally:
            closed_at.append(len(transport.requests))

    await get(transport)
    assert closed_at == [1]


async def test_at_most_ten_attempts_are_made():
    transport = FakeTransport(busy(429, "1"))
    with pytest.raises(errors.TooManyRequests) as caught:
        await get(transport, timeout=1000)
    assert len(transport.requests) == MAX_ATTEMPTS == 10
    assert caught.value.retry_after == 1.0


async def test_the_last_answer_counts_and_no_repetition_begins_after_the_time_limit():
    transport = FakeTransport(busy(503, "8"), busy(503, "8"), busy(429, "8"))
    with pytest.raises(errors.TooManyRequests):
        await get(transport, timeout=20)
    assert transport.times == [0.0, 8.0, 16.0]


async def test_a_request_sleeps_before_it_takes_a_slot():
    """While one waits to be repeated its slot is free for another."""
    slow = FakeTransport(busy(500, "5"), good)
    api = client(slow, concurrency=1)
    repeated = asyncio.create_task(api.get(PODS, "default", "a"))
    await asyncio.sleep(1)
    await api.get(PODS, "default", "b")
    assert slow.times == [0.0, 1.0]
    await repeated
    assert slow.times == [0.0, 1.0, 5.0]


@pytest.mark.parametrize(("send", "sent"), [(get, 2), (create, 1)])
async def test_what_is_sent_for_an_owner_is_left_to_the_back_off_of_its_key(send, sent: int):
    transport = FakeTransport(busy(429, "1"))
    with pytest.raises(errors.TooManyRequests):
        await send(transport, flow="an owner")
    assert len(transport.requests) == sent


async def test_a_watch_start_is_left_to_the_back_off_of_the_reflector():
    transport = FakeTransport(busy(429, "7"))
    source = ResourceSource(client(transport), PODS)
    with pytest.raises(Throttled) as caught:
        async with source.watch({"watch": "1"}):
            pass
    assert len(transport.requests) == 1
    assert caught.value.retry_after == 7.0


async def test_a_read_is_repeated_after_a_reset():
    transport = FakeTransport(RESET, RESET, good)
    await get(transport)
    assert transport.times == [0.0, 1.0, 2.0]


async def test_a_read_whose_body_breaks_off_is_repeated():
    transport = FakeTransport(lambda: (200, {}, chunks(POD[:9], RESET)), good)
    await get(transport)
    assert len(transport.requests) == 2


async def test_a_write_is_never_repeated_after_a_reset():
    transport = FakeTransport(RESET, good)
    with pytest.raises(errors.OutcomeUnknown):
        await create(transport)
    assert len(transport.requests) == 1


@pytest.mark.real_time
async def test_a_connection_is_abandoned_after_a_timeout():
    """Its late answer would else be taken for that of the next request."""
    async with HoldingServer(silent_connections=1) as server:
        transport = HttpTransport(
            StaticCredentials(server.url), timeouts=Timeouts(idle=0.2, total=5)
        )
        with pytest.raises(errors.OutcomeUnknown):
            await transport.request(Request("GET", "/first"))
        status, _, body = await transport.request(Request("GET", "/second"))
        assert (status, [part async for part in body]) == (200, [b"/second"])
        assert server.connections == 2
        await transport.aclose()


async def watch(step) -> list[bytes]:
    source = ResourceSource(client(FakeTransport(step)), PODS)
    async with source.watch({"watch": "1"}) as stream:
        return [chunk async for chunk in stream]


async def test_a_refused_watch_is_told_by_its_status():
    with pytest.raises(Expired):
        await watch(busy(410, reason="Expired"))
    with pytest.raises(Failed) as caught:
        await watch(busy(403, reason="Forbidden"))
    assert (caught.value.status, caught.value.reason) == (403, "Forbidden")


async def test_a_time_out_at_the_start_and_an_end_in_mid_stream_are_disconnections():
    """Upstream makes them an empty watch; here the reflector is told what happened."""
    with pytest.raises(Disconnected):
        await watch(errors.OutcomeUnknown("timed out"))
    with pytest.raises(Disconnected):
        await watch(lambda: (*answer(200)[:2], chunks(b"{", RESET)))


async def test_a_watch_that_ends_at_once_is_an_empty_one():
    assert await watch(lambda: answer(200)) == []


@pytest.mark.parametrize("content_type", ["text/html", "application/vnd.kubernetes.protobuf", ""])
async def test_an_unknown_content_type_is_an_error(content_type: str):
    with pytest.raises(Malformed, match="a stream of"):
        await watch(lambda: answer(200, b"<html>", content_type=content_type))


async def test_no_more_requests_than_slots_are_in_flight():
    transport = FakeTransport(good)
    transport.hold = asyncio.Event()
    api = client(transport, concurrency=3)
    async with asyncio.TaskGroup() as tasks:
        for number in range(20):
            tasks.create_task(api.get(PODS, "default", str(number)))
        await asyncio.sleep(1)
        assert transport.in_flight == 3
        transport.hold.set()
    assert transport.most_in_flight == 3
    assert [request.path[-2:].lstrip("/") for request in transport.requests] == [
        str(number) for number in range(20)
    ], "first come, first served"


async def test_waiting_for_a_slot_ends_at_the_time_limit_and_nothing_was_sent():
    transport = FakeTransport(good)
    transport.hold = asyncio.Event()
    api = client(transport, concurrency=1, timeout=5)
    listing = asyncio.create_task(api.list(PODS, "default"))
    await asyncio.sleep(3)
    with pytest.raises(errors.NotSent, match="too many requests in flight"):
        await api.create(PODS, "default", {})
    assert asyncio.get_running_loop().time() == 8.0
    assert [request.method for request in transport.requests] == ["GET"]
    listing.cancel()


async def test_a_watch_needs_no_slot():
    transport = FakeTransport(lambda: answer(200, POD))
    transport.hold = asyncio.Event()
    api = client(transport, concurrency=1)
    waiting = asyncio.create_task(api.get(PODS, "default", "a"))
    await asyncio.sleep(0)
    transport.hold = None
    async with api.stream("/api/v1/pods", {"watch": "1"}) as stream:
        assert [chunk async for chunk in stream] == [POD]
    waiting.cancel()


async def test_a_pause_that_the_servers_filters_ask_for_is_made_by_all():
    transport = FakeTransport(overloaded(429, "10"), good)
    api = client(transport)
    first = asyncio.create_task(api.get(PODS, "default", "a"))
    await asyncio.sleep(1)
    async with asyncio.TaskGroup() as tasks:
        for namespace in "bcd":
            tasks.create_task(api.get(PODS, namespace, "a"))
    await first
    assert transport.times == [0.0] + [10.0] * 4


async def test_a_pause_that_a_handler_asks_for_is_made_by_its_lane_alone():
    transport = FakeTransport(busy(429, "10"), good)
    api = client(transport)
    first = asyncio.create_task(api.create(PODS, "sick", {}))
    await asyncio.sleep(1)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(api.create(PODS, "sick", {}))
        tasks.create_task(api.create(PODS, "healthy", {}))
        tasks.create_task(api.delete(PODS, "sick", "a"))
        tasks.create_task(api.merge_patch(PODS, "sick", "a", {}, subresource="status"))
    await first
    assert transport.times == [0.0, 1.0, 1.0, 1.0, 10.0, 10.0]
    assert [request.path for request in transport.requests[-2:]] == [PODS.path("sick")] * 2


async def test_requests_of_a_paused_lane_hold_no_slot():
    transport = FakeTransport(busy(429, "10"), good)
    api = client(transport, concurrency=2)
    sick = [asyncio.create_task(api.create(PODS, "sick", {})) for _ in range(5)]
    await asyncio.sleep(1)
    await api.create(PODS, "healthy", {})
    assert asyncio.get_running_loop().time() == 1.0
    await asyncio.gather(*sick)


async def test_requests_that_wait_for_a_slot_keep_a_pause_that_begins_meanwhile():
    transport = FakeTransport(busy(503, "6"), good)
    transport.hold = asyncio.Event()
    api = client(transport, concurrency=1)
    async with asyncio.TaskGroup() as tasks:
        for name in "ab":
            tasks.create_task(api.get(PODS, "default", name))
        await asyncio.sleep(2)
        transport.hold.set()
    assert transport.times == [0.0, 8.0, 8.0]


async def test_a_watch_keeps_the_pause():
    transport = FakeTransport(overloaded(429, "4"), lambda: answer(200, b"{}"))
    api = client(transport)
    with pytest.raises(errors.TooManyRequests):
        await api.read_page("/api/v1/pods", {})
    async with api.stream("/api/v1/pods", {"watch": "1"}):
        pass
    assert transport.times == [0.0, 4.0]


async def test_a_pause_longer_than_the_time_limit_fails_at_once():
    transport = FakeTransport(busy(429, "40"), good)
    api = client(transport, timeout=30)
    with pytest.raises(errors.TooManyRequests):
        await api.get(PODS, "default", "a")
    with pytest.raises(errors.Paused) as caught:
        await api.get(PODS, "default", "a")
    assert caught.value.retry_after == 40.0
    assert asyncio.get_running_loop().time() == 0.0
    await asyncio.sleep(11)
    await api.get(PODS, "default", "a")
    assert transport.times == [0.0, 40.0]


async def test_ten_thousand_seconds_of_a_busy_server_cost_few_requests():
    transport = FakeTransport(busy(429, "3"))
    api = client(transport)
    loop = asyncio.get_running_loop()
    while loop.time() < 10_000:
        with pytest.raises((errors.TooManyRequests, errors.Paused)):
            await api.get(PODS, "default", "a")
        await asyncio.sleep(0.01)
    assert all(later - earlier >= 3 for earlier, later in pairwise(transport.times))
