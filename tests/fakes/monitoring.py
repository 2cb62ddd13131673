"""A client of the endpoints for metrics and health."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import aiohttp

from controller.runtime.health import DebugServer, MonitoringServer

LONGEST = 10.0
"""Seconds that a server may take to start or to stop."""


@asynccontextmanager
async def serving(server: MonitoringServer | DebugServer) -> AsyncGenerator[aiohttp.ClientSession]:
    """Run the server for the duration of a block; yields a client of it."""
    ready = asyncio.Event()
    task = asyncio.create_task(server.run(ready.set))
    task.add_done_callback(lambda _ended: ready.set())
    async with asyncio.timeout(LONGEST):
        await ready.wait()
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as session:
            yield session
    finally:
        server.stop()
        async with asyncio.timeout(LONGEST):
            await task
