"""Plays one cell of the table: a sick tenant beside a healthy one.

A cell is a list of findings; an empty one is what everybody wants.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeAlias

from msgspec import Struct

from tests.integration.harness import measured_once
from tests.neighbours.kinds import Column, Manifest
from tests.neighbours.neighbourhood import Neighbourhood, Tenant, neighbourhood
from tests.neighbours.sickness import Sickness

Beginning: TypeAlias = Callable[[Column, str], Awaitable[None]]

INCUBATION = 30.0
"""Seconds of sickness before the healthy tenant creates its object."""

SLACK = 2.0
"""Seconds that a healthy object may take beyond twice its time alone."""

PATIENCE = 120.0
"""Seconds after which a healthy object is given up."""

STORM = 5
"""How many times the requests that are allowed end a sickness early."""

MOST_KEYS = 4
"""How many times the objects that one has alone count: a new attempt, or an upgrade, has more."""

CURE = 60.0
"""Seconds after the end of a sickness within which all is well, but for the time that the object
takes alone: a RayJob that can run at last still has to run.
"""


class Alone(Struct, frozen=True):
    """What an object does when nothing disturbs it.

    Attributes:
        seconds: until it is well, and well again after its edit if its kind has one.
        keys: objects that are reconciled, itself included.
    """

    seconds: float
    requests: int
    keys: int


@measured_once
async def alone(column: Column) -> Alone:
    async with neighbourhood(column) as street:
        seconds = await _seconds_until_well(street.well, column, "alone")
        if column.edit is not None:
            seconds += await _seconds_until_rolled(street.well, column, "alone")
        assert seconds < PATIENCE, f"a {column} is never well, even alone"
        await asyncio.sleep(CURE)  # a RayCronJob's job is still to run
        return Alone(seconds, street.well.requests().total(), street.well.keys())


async def play(sickness: Sickness, column: Column) -> list[str]:
    limit = 2 * (await alone(column)).seconds + SLACK
    async with neighbourhood(column, sickness.mtls_issuer) as street:
        cell = _Cell(street, sickness, column)
        return await cell.play(limit)


class _Cell:
    def __init__(self, street: Neighbourhood, sickness: Sickness, column: Column) -> None:
        self._street = street
        self._sickness = sickness
        self._column = column
        self._names = [f"sick-{number}" for number in range(sickness.crowd)]
        self._found: list[str] = []

    async def play(self, limit: float) -> list[str]:
        sick, sickness, edits = self._street.sick, self._sickness, self._column.edit is not None
        if sickness.late or edits:
            await self._create()
            await self._all_well(PATIENCE)
        begins = edits or not sickness.late
        allowed = (await alone(self._column)).requests * sickness.crowd if begins else 0
        since = len(self._street.operator.transport.journal.entries)
        began = asyncio.get_running_loop().time()
        if sickness.late and edits:
            await self._edit()
        async with entered(sickness.course(sick)), self._watching_readiness():
            if not sickness.late:
                await (self._edit() if edits else self._create())
            await asyncio.sleep(INCUBATION)
            if not sickness.everywhere:
                await self._check_the_healthy_one(limit)
            await self._live_on(began + sickness.lasts, since, allowed)
            await self._check_requests(since, allowed)
            self._check_cause()
        self._check_strikes()
        await asyncio.sleep(sickness.lingers)
        await self._check_cure()
        return self._found + self._street.findings

    async def _live_on(self, until: float, since: int, allowed: int) -> None:
        """Let the sickness go on; a storm of requests has been seen enough of."""
        enough = STORM * (allowed + self._sickness.requests)
        rest = until - asyncio.get_running_loop().time()
        await _reached(lambda: self._requests(since).total() > enough, seconds=rest, pause=10.0)

    def _requests(self, since: int) -> Counter[tuple[str, str]]:
        return self._street.sick.requests(since)

    async def _create(self) -> None:
        await self._column.wait_for_phase()
        for name in self._names:
            await self._street.sick.create(self._column, name)

    async def _edit(self) -> None:
        for name in self._names:
            await self._street.sick.edit(self._column, name)

    async def _check_the_healthy_one(self, limit: float) -> None:
        seconds = await _seconds_until_well(self._street.well, self._column, "well")
        if self._column.edit is not None:
            seconds += await _seconds_until_rolled(self._street.well, self._column, "well")
        await self._street.well.delete(self._column, "well")
        if seconds > limit:
            self._found.append(f"the healthy one took {seconds:.0f} s instead of {limit:.0f} s")

    async def _keys(self, since: int) -> int:
        """Return how many keys there are or were; of objects created without end, few count."""
        usual = (await alone(self._column)).keys * self._sickness.crowd
        lived = min(self._street.sick.created_keys(since) + self._sickness.crowd, usual)
        return max(1, lived, min(self._street.sick.keys(), MOST_KEYS * usual))

    async def _check_requests(self, since: int, allowed: int) -> None:
        requests = self._requests(since)
        allowed += self._sickness.requests * await self._keys(since)
        if requests.total() > allowed:
            most = ", ".join(f"{n} {' '.join(what)}" for what, n in requests.most_common(3))
            self._found.append(f"{requests.total()} requests, {allowed} allowed ({most})")

    def _check_cause(self) -> None:
        texts = self._street.sick.texts(self._column.speaks)
        if not self._sickness.is_named_in(texts, self._column):
            said = "; ".join(sorted({text for text in texts if text != ": "}))
            self._found.append(f"not named: {self._sickness.pattern(self._column)}, but: {said}")

    def _check_strikes(self) -> None:
        """A cell without any proves nothing; some sicknesses have means that are not counted."""
        strikes = self._street.strikes
        if strikes and not strikes.total():
            self._found.append(f"the sickness strikes nothing: no {', '.join(sorted(strikes))}")

    async def _check_cure(self) -> None:
        """Whether all is well again in time; what has failed for good is created anew."""
        await asyncio.gather(*map(self._recreate_if_over, self._names))
        seconds = CURE + (await alone(self._column)).seconds
        if not await self._all_well(seconds):
            states = [_state(self._object(name)) for name in self._names]
            self._found.append(f"not well {seconds:.0f} s after the end: {states[0]}")

    async def _recreate_if_over(self, name: str) -> None:
        found = self._object(name)
        deleted = found is None or "deletionTimestamp" in found["metadata"]
        if deleted or self._column.has_ended(found):
            await self._street.sick.delete(self._column, name)
            assert await _reached(lambda: self._object(name) is None, seconds=CURE)
            await self._street.sick.create(self._column, name)

    def _object(self, name: str) -> Manifest | None:
        return self._street.sick.object(self._column, name)

    async def _all_well(self, seconds: float) -> bool:
        sick, column = self._street.sick, self._column
        return await _reached(
            lambda: all(sick.is_well(column, name) for name in self._names), seconds=seconds
        )

    @asynccontextmanager
    async def _watching_readiness(self) -> AsyncIterator[None]:
        """Ask `/readyz` every five seconds meanwhile, unless the sickness is everybody's."""
        seen: dict[str, None] = {}

        async def watch() -> None:
            while True:
                seen.update(dict.fromkeys(self._street.unready()))
                await asyncio.sleep(5.0)

        watching = asyncio.create_task(watch())
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        if seen and not self._sickness.everywhere:
            self._found.append(f"unready: {next(iter(seen))}")


async def _seconds_until_well(tenant: Tenant, column: Column, name: str) -> float:
    """Create an object, wait until it is well, and return how long that took."""
    await column.wait_for_phase()
    return await _seconds_of(tenant.create, tenant, column, name)


async def _seconds_until_rolled(tenant: Tenant, column: Column, name: str) -> float:
    """Edit an object, wait until it is well again, and return how long that took."""
    return await _seconds_of(tenant.edit, tenant, column, name)


async def _seconds_of(begin: Beginning, tenant: Tenant, column: Column, name: str) -> float:
    loop = asyncio.get_running_loop()
    began = loop.time()
    await begin(column, name)
    await _reached(lambda: tenant.is_well(column, name), seconds=PATIENCE, pause=0.2)
    return loop.time() - began


async def _reached(condition: Callable[[], bool], *, seconds: float, pause: float = 0.5) -> bool:
    """Wait until something is true, so many seconds at most; return whether it is."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while not condition():
        if loop.time() >= deadline:
            return False
        await asyncio.sleep(pause)
    return True


@asynccontextmanager
async def entered(course: Any) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        if hasattr(course, "__aenter__"):
            await stack.enter_async_context(course)
        else:
            stack.enter_context(course)
        yield


def _state(found: dict[str, Any] | None) -> str:
    if found is None:
        return "gone"
    status = found.get("status", {})
    ready = [each for each in status.get("conditions", []) if each["type"] == "Ready"]
    said = f"{ready[0]['reason']}: {ready[0]['message']}" if ready else ""
    return f"{status.get('state') or status.get('jobDeploymentStatus') or ''} {said}"
