"""Serves an application at one address until it is stopped."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Final

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Callable

IDLE_TIMEOUT: Final = 90.0
"""Seconds after which an idle connection is closed (HLT-5)."""

SHUTDOWN_TIMEOUT: Final = 1.0
"""Seconds in which requests in flight may end when the server stops."""


class HttpListener:
    """The base of servers.

    Args:
        host: empty for all addresses.
        port: 0 for a free one.
        options: options that choose another address, for the error's text.

    Attributes:
        host: as it was given.
        port: where it listens, once it is ready.
    """

    def __init__(self, host: str, port: int, options: str) -> None:
        self.host = host
        self.port = port
        self._options = options
        self._stopped = asyncio.Event()

    async def serve(self, application: web.Application, ready: Callable[[], None]) -> None:
        """Serve until stopped.

        Raises:
            OSError: the address cannot be bound (HLT-3); the message names the options.
        """
        runner = web.AppRunner(
            application,
            access_log=None,
            keepalive_timeout=IDLE_TIMEOUT,
            shutdown_timeout=SHUTDOWN_TIMEOUT,
        )
        await runner.setup()
        try:
            await self._listen(runner)
            self.port = int(runner.addresses[0][1])
            ready()
            await self._stopped.wait()
        finally:
            await runner.cleanup()

    async def _listen(self, runner: web.AppRunner) -> None:
        try:
            await web.TCPSite(runner, self.host or None, self.port).start()
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error
            raise OSError(
                f"cannot listen on {self.host or '*'}:{self.port}: {reason}; choose another "
                f"address with {self._options}"
            ) from error

    def stop(self) -> None:
        """Stop listening; requests in flight are answered."""
        self._stopped.set()
