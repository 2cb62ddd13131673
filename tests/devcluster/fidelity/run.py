"""Sends a sequence to a server and notes what it answers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.devcluster.apiserver.support import Api
from tests.devcluster.fidelity.normalise import Normaliser
from tests.devcluster.fidelity.steps import Memory, Step

GRACE = 0.05
"""Seconds in which a server may still send an event that it should not send."""
PATIENCE = 30.0
"""Seconds in which a server must have sent the events that it should send."""
_COMPARED_HEADERS = ("content-type", "warning", "retry-after", "cache-control")


@dataclass
class Seen:
    """What one server answered to one step, normalised.

    Attributes:
        headers: those that are compared.
    """

    status: int = 0
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    events: list[Any] = field(default_factory=list)


@dataclass
class _OpenWatch:
    seen: Seen
    raw: list[Any] = field(default_factory=list)
    task: asyncio.Task[None] | None = None


class Player:
    """Plays sequences on one server.

    Attributes:
        compact: makes it forget its history.
    """

    def __init__(self, api: Api, compact: Callable[[], Awaitable[None]]) -> None:
        self.api = api
        self.compact = compact

    async def play(
        self, steps: Sequence[Step], namespace: str, expected: Sequence[Seen] = ()
    ) -> list[Seen]:
        """Play a sequence in a new namespace.

        Args:
            namespace: must not exist.
            expected: what another server answered: its watches say how many events to wait for.
        """
        await self.api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        memory, normaliser = Memory(namespace), Normaliser()
        seen: list[Seen] = []
        watches: dict[int, _OpenWatch] = {}
        for index, step in enumerate(steps):
            if step.method == "COMPACT":
                await self.compact()
                seen.append(Seen())
            elif step.method == "WATCH":
                watches[index] = await self._open(step, memory, normaliser)
                seen.append(watches[index].seen)
            else:
                seen.append(await self._send(step, memory, normaliser))
        for index, watch in watches.items():
            count = len(expected[index].events) if index < len(expected) else 0
            await _finish(watch, count)
            watch.seen.events = [normaliser.event(event) for event in _without_bookmarks(watch.raw)]
        return seen

    async def _request(self, step: Step, memory: Memory) -> tuple[int, Any, Any]:
        headers = {
            "Accept": "application/json",
            "Content-Type": "application/json",
            "User-Agent": "fidelity/1",
        } | step.headers
        query = {name: memory.fill(str(value)) for name, value in step.query.items()}
        method = "GET" if step.method == "WATCH" else step.method
        body = memory.body_of(step)
        try:
            return await self.api.send(method, memory.fill(step.path), query, headers, body)
        except Exception as error:  # noqa: BLE001 - a crash is an answer to be compared, too
            return 0, {}, _crash(error)

    async def _send(self, step: Step, memory: Memory, normaliser: Normaliser) -> Seen:
        status, headers, chunks = await self._request(step, memory)
        text = b"".join([chunk async for chunk in chunks])
        seen = Seen(status, _decoded(text), _compared(headers))
        if status < 300:
            memory.learn(step, seen.body)
        seen.body = normaliser.value(seen.body)
        return seen

    async def _open(self, step: Step, memory: Memory, normaliser: Normaliser) -> _OpenWatch:
        status, headers, chunks = await self._request(step, memory)
        watch = _OpenWatch(Seen(status, headers=_compared(headers)))
        if status != 200:
            text = b"".join([chunk async for chunk in chunks])
            watch.seen.body = normaliser.value(_decoded(text))
            return watch
        watch.task = asyncio.create_task(_read(chunks, watch.raw))
        await asyncio.sleep(0)
        return watch


async def _crash(error: Exception) -> AsyncIterator[bytes]:
    place = traceback.extract_tb(error.__traceback__)[-1]
    yield f"crashed: {error!r} in {place.name}, line {place.lineno}".encode()


def _compared(headers: Any) -> dict[str, str]:
    return {name: headers[name] for name in _COMPARED_HEADERS if headers.get(name)}


def _decoded(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text.decode()


def _without_bookmarks(events: list[Any]) -> list[Any]:
    """Events without the bookmarks that only time decides about."""
    return [
        event
        for event in events
        if event["type"] != "BOOKMARK" or event["object"]["metadata"].get("annotations")
    ]


async def _read(chunks: Any, events: list[Any]) -> None:
    buffer = b""
    async with contextlib.aclosing(chunks):
        async for chunk in chunks:
            *lines, buffer = (buffer + chunk).split(b"\n")
            events.extend(json.loads(line) for line in lines)


async def _finish(watch: _OpenWatch, count: int) -> None:
    """Read what is still on its way, then hang up."""
    if watch.task is None:
        return
    loop = asyncio.get_running_loop()
    deadline = loop.time() + PATIENCE
    while len(_without_bookmarks(watch.raw)) < count and loop.time() < deadline:
        if watch.task.done():
            break
        await asyncio.sleep(0.005)
    await asyncio.sleep(GRACE)
    watch.task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watch.task
