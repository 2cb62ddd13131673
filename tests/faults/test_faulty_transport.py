"""Faults apply where their rules say, in order and repeatably, and are recorded."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator

import pytest

from controller.kube import errors
from controller.kube.resources import PODS, SERVICES
from controller.kube.transport import RawResponse, Request
from controller.testing import faults
from controller.testing.faults import FaultyTransport, Rule
from tests.kube.fakes import POD, FakeTransport, answer, client

BOOKMARK = b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}'


def event(name: str, kind: str = "ADDED") -> bytes:
    return json.dumps({"type": kind, "object": {"metadata": {"name": name}}}).encode()


def faulty(inner, *rules: Rule) -> FaultyTransport:
    return FaultyTransport(inner, rules, clock=asyncio.get_running_loop())


def good() -> RawResponse:
    return answer(200, POD)


class Stream:
    """A transport with one watch that the test writes into."""

    def __init__(self) -> None:
        self.chunks: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.closed = 0

    async def request(self, request: Request) -> RawResponse:
        return 200, {"content-type": "application/json"}, self._read()

    async def _read(self) -> AsyncGenerator[bytes, None]:
        try:
            while (chunk := await self.chunks.get()) is not None:
                yield chunk
        finally:
            self.closed += 1

    def write(self, *lines: bytes) -> None:
        for line in lines:
            self.chunks.put_nowait(line + b"\n")

    def end(self) -> None:
        self.chunks.put_nowait(None)


async def watch(transport: FaultyTransport, path: str = "/api/v1/pods"):
    _, _, chunks = await transport.request(Request("GET", path, {"watch": "1"}))
    return chunks


async def arrivals(chunks) -> list[tuple[float, bytes]]:
    loop = asyncio.get_running_loop()
    return [(loop.time(), chunk.rstrip(b"\n")) async for chunk in chunks]


# --- requests


@pytest.mark.parametrize(
    ("fault", "error", "forwarded", "outcome"),
    [
        (faults.Refused(), errors.NotSent, False, "refused"),
        (faults.LostRequest(), errors.OutcomeUnknown, False, "lost request"),
        (faults.LostResponse(), errors.OutcomeUnknown, True, "lost answer"),
        (faults.ErrorResponse(409, "Conflict"), errors.Conflict, False, "409"),
        (faults.ErrorResponse(500), errors.ServerError, False, "500"),
        (faults.ErrorResponse(503, retry_after=99), errors.ServerError, False, "503"),
    ],
)
async def test_a_fault_strikes_one_write(fault, error, forwarded: bool, outcome: str):
    inner = FakeTransport(good)
    transport = faulty(inner, faults.on_write(fault, 2))
    api = client(transport)
    await api.get(PODS, "ns", "a")
    await api.create(PODS, "ns", {})
    with pytest.raises(error):
        await api.create(PODS, "ns", {})
    assert len(inner.requests) == (3 if forwarded else 2)
    assert [entry.outcome for entry in transport.journal.writes] == ["200", outcome]


async def test_after_its_times_a_fault_is_over():
    transport = faulty(FakeTransport(good), faults.on_write(faults.LostRequest(), 1))
    api = client(transport)
    with pytest.raises(errors.OutcomeUnknown):
        await api.create(PODS, "ns", {})
    await api.create(PODS, "ns", {})


async def test_a_rule_is_narrowed_by_resource_verb_and_name():
    rule = Rule(faults.Refused(), "pods", frozenset({"create"}), lambda name: name == "b")
    api = client(faulty(FakeTransport(good), rule))
    await api.create(PODS, "ns", {"metadata": {"name": "a"}})
    await api.get(PODS, "ns", "b")
    with pytest.raises(errors.UnexpectedResponse):
        await api.create(SERVICES, "ns", {"metadata": {"name": "b"}})
    with pytest.raises(errors.NotSent):
        await api.create(PODS, "ns", {"metadata": {"name": "b"}})
    assert rule.seen == 1


async def test_a_late_request_is_carried_out_late_and_a_slow_answer_arrives_late():
    inner = FakeTransport(good)
    loop = asyncio.get_running_loop()
    await client(faulty(inner, Rule(faults.DelayedRequest(5)))).get(PODS, "ns", "a")
    assert (inner.times, loop.time()) == ([5.0], 5.0)
    await client(faulty(inner, Rule(faults.DelayedResponse(5)))).get(PODS, "ns", "a")
    assert (inner.times, loop.time()) == ([5.0, 5.0], 10.0)


async def test_a_cancelled_slow_answer_is_closed():
    given = good()
    transport = faulty(FakeTransport(lambda: given), Rule(faults.DelayedResponse(50)))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await client(transport).get(PODS, "ns", "a")
    assert given[2].ag_frame is None, "a closed generator has no frame"
    assert transport.journal.entries[0].outcome == "pending"


async def test_a_refusal_is_a_status_with_its_header():
    refusal = faults.ErrorResponse(429, "TooManyRequests", "slow down", retry_after=7)
    transport = faulty(FakeTransport(good), Rule(refusal))
    with pytest.raises(errors.TooManyRequests, match="slow down") as caught:
        await client(transport).read_page("/api/v1/pods", {})
    assert caught.value.retry_after == 7.0


async def test_the_process_can_be_killed_at_the_nth_write_before_or_after_it_is_carried_out():
    for hook, forwarded in (("on_request", 0), ("on_answer", 1)):
        inner = FakeTransport(good)
        transport = faulty(inner)
        getattr(transport, hook).append(lambda entry, transport=transport: transport.sever())
        with pytest.raises(errors.TransportError):
            await client(transport).create(PODS, "ns", {})
        assert len(inner.requests) == forwarded
        with pytest.raises(errors.NotSent):
            await client(transport).create(PODS, "ns", {})
        assert len(inner.requests) == forwarded


# --- watches


async def test_lag_delays_each_event_and_bookmark_without_adding_up_and_keeps_the_order():
    stream = Stream()
    transport = faulty(stream, faults.watch_lag("pods", 10))
    reading = asyncio.create_task(arrivals(await watch(transport)))
    stream.write(event("a"), event("b"), BOOKMARK)
    await asyncio.sleep(4)
    stream.write(event("c"))
    stream.end()
    assert await reading == [
        (10.0, event("a")),
        (10.0, event("b")),
        (10.0, BOOKMARK),
        (14.0, event("c")),
    ]
    assert stream.closed == 1
    assert [(seen.resource, seen.event.name) for seen in transport.journal.events] == [
        ("pods", "a"),
        ("pods", "b"),
        ("pods", ""),
        ("pods", "c"),
    ]


async def test_lifted_lag_lets_nothing_overtake():
    stream = Stream()
    transport = faulty(stream, faults.watch_lag("pods", 10))
    reading = asyncio.create_task(arrivals(await watch(transport)))
    stream.write(event("a"))
    await asyncio.sleep(1)
    transport.rules.clear()
    stream.write(event("b"))
    await asyncio.sleep(20)
    stream.write(event("c"))
    stream.end()
    assert await reading == [(10.0, event("a")), (10.0, event("b")), (21.0, event("c"))]


async def test_a_cut_takes_the_place_of_an_event_counted_over_all_watches():
    first, second = Stream(), Stream()
    rule = faults.watch_cut("pods", 3)
    transport = faulty(first, rule)
    chunks = await watch(transport)
    first.write(event("a"), event("b"), event("c"))
    assert [await anext(chunks), await anext(chunks)] == [event("a") + b"\n", event("b") + b"\n"]
    with pytest.raises(errors.OutcomeUnknown, match="injected"):
        await anext(chunks)
    assert first.closed == 1
    transport._inner = second
    second.write(event("c"))
    second.end()
    assert await arrivals(await watch(transport)) == [(0.0, event("c"))]


async def test_410_takes_the_place_of_an_event_after_what_lags():
    stream = Stream()
    transport = faulty(stream, faults.watch_gone("pods", 2), faults.watch_lag("pods", 3))
    stream.write(event("a"), event("b"))
    [(_, first), (when, last)] = await arrivals(await watch(transport))
    assert (first, when) == (event("a"), 3.0)
    assert json.loads(last)["object"]["code"] == 410


async def test_lines_cut_anywhere_are_put_together():
    stream = Stream()
    transport = faulty(stream)
    for byte in event("a") + b"\n" + event("b"):
        stream.chunks.put_nowait(bytes([byte]))
    stream.end()
    assert [line for _, line in await arrivals(await watch(transport))] == [event("a"), event("b")]


async def test_severing_breaks_a_waiting_watch_and_loses_what_lags():
    stream = Stream()
    transport = faulty(stream, faults.watch_lag("pods", 10))
    chunks = await watch(transport)
    stream.write(event("a"))
    reading = asyncio.create_task(anext(chunks))
    await asyncio.sleep(1)
    transport.sever()
    with pytest.raises(errors.OutcomeUnknown, match="severed"):
        await reading
    assert asyncio.get_running_loop().time() == 1.0
    assert stream.closed == 1


async def test_closing_early_closes_the_inner_stream_and_leaves_no_task():
    stream = Stream()
    chunks = await watch(faulty(stream))
    stream.write(event("a"), event("b"))
    await anext(chunks)
    await chunks.aclose()
    assert stream.closed == 1
    with pytest.raises(StopAsyncIteration):
        await anext(chunks)
    assert len(asyncio.all_tasks()) == 1


async def test_a_failure_of_the_inner_stream_arrives_in_its_place():
    async def broken():
        yield event("a") + b"\n"
        raise errors.OutcomeUnknown("reset")

    transport = faulty(FakeTransport(lambda: (200, {}, broken())), faults.watch_lag("pods", 2))
    chunks = await watch(transport)
    assert await anext(chunks) == event("a") + b"\n"
    with pytest.raises(errors.OutcomeUnknown, match="reset"):
        await anext(chunks)
    assert asyncio.get_running_loop().time() == 2.0
