"""Refreshes the credentials of an exec plugin (`exec` in a kubeconfig).

The plugin runs again before its credential expires, in the background while the old one is
still valid. A failed run is retried with back-off.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import structlog

from controller.kube.errors import ConfigurationError, NotSent

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from controller.kube.credentials import ClientCertificate
    from informers import Clock


_log = structlog.get_logger(__name__)

RENEW_BEFORE = timedelta(minutes=5)
"""Time before its expiry at which a credential is renewed; at most a fifth of its lifetime."""

SHORTEST_INTERVAL = 1.0
LONGEST_INTERVAL = 60.0
"""Seconds between runs after failures: doubled from the shortest to the longest."""

REFUSED_INTERVAL = 10.0
"""Least seconds between runs caused by rejected credentials."""

RUN_TIMEOUT = 120.0
"""Seconds for one run, which may have to wait for a person to log in."""


@dataclass(frozen=True, slots=True)
class ExecCredential:
    """The result of a plugin: a header, a certificate, or both; `expires` is in UTC."""

    authorization: str = ""
    certificate: ClientCertificate | None = None
    expires: datetime | None = None


class ExecCredentialRefresher:
    """Keeps the credential of one plugin valid.

    Args:
        run: runs the plugin once; raises `ConfigurationError` with cause and remedy.
        clock: for the intervals between runs.
        wall: the current time in UTC, compared with the expiry.
    """

    def __init__(
        self,
        run: Callable[[], Awaitable[ExecCredential]],
        *,
        clock: Clock,
        wall: Callable[[], datetime],
    ) -> None:
        self._run = run
        self._clock = clock
        self._wall = wall
        self._credential = ExecCredential()
        self._issued_at = wall()
        self._running: asyncio.Task[None] | None = None
        self._not_before = clock.time()
        self._interval = SHORTEST_INTERVAL
        self._failure: ConfigurationError | None = None

    @property
    def latest(self) -> ExecCredential:
        """The latest credential, which may have expired."""
        return self._credential

    async def start(self) -> None:
        """Run the plugin for the first time. Raises `ConfigurationError`."""
        await self._renew()
        if self._failure is not None:
            raise self._failure

    async def current(self) -> ExecCredential:
        """Return a credential that has not expired.

        Raises:
            NotSent: it has expired and the plugin returns no other one.
        """
        left = self._left()
        if left is None or left > self._margin():
            return self._credential
        if left > timedelta(0):
            self._start_run()
            return self._credential
        await self._renew()
        left = self._left()
        if left is not None and left <= timedelta(0):
            raise NotSent(f"credentials have expired and cannot be renewed: {self._failure}")
        return self._credential

    async def refresh(self) -> None:
        """Replace a credential that the server refused, unless the last run was too recent."""
        await self._renew()
        self._not_before = max(self._not_before, self._clock.time() + REFUSED_INTERVAL)

    async def aclose(self) -> None:
        """Cancel a running plugin."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    def _left(self) -> timedelta | None:
        expires = self._credential.expires
        return None if expires is None else expires - self._wall()

    def _margin(self) -> timedelta:
        assert self._credential.expires is not None
        return min(RENEW_BEFORE, (self._credential.expires - self._issued_at) / 5)

    def _start_run(self) -> asyncio.Task[None] | None:
        """Return the current run, a new one if one is due, else None."""
        if self._running is not None and not self._running.done():
            return self._running
        if self._clock.time() < self._not_before:
            return None
        self._running = asyncio.create_task(self._run_once())
        return self._running

    async def _renew(self) -> None:
        running = self._start_run()
        if running is not None:
            await asyncio.shield(running)

    async def _run_once(self) -> None:
        try:
            async with asyncio.timeout(RUN_TIMEOUT):
                credential = await self._run()
        except TimeoutError:
            self._failed(ConfigurationError(f"The exec plugin took more than {RUN_TIMEOUT:g} s."))
        except ConfigurationError as error:
            self._failed(error)
        else:
            self._credential = credential
            self._issued_at = self._wall()
            self._failure = None
            self._interval = SHORTEST_INTERVAL
            self._not_before = self._clock.time()

    def _failed(self, error: ConfigurationError) -> None:
        _log.warning("exec plugin failed", error=str(error), retry_in=self._interval)
        self._failure = error
        self._not_before = self._clock.time() + self._interval
        self._interval = min(2 * self._interval, LONGEST_INTERVAL)
