"""HTTP endpoints for probes and for Prometheus (HLT rules).

`/healthz` and `/livez` report whether the process works, `/readyz` whether it can do its job now.
Each aggregates named checks; `/readyz/<check>` runs one, `?verbose` lists all, `?exclude=<check>`
leaves some out. A failed check gives its reason (CTL-5); the message of an unexpected exception
goes to the log only.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec
import structlog
from aiohttp import hdrs, web
from prometheus_client.exposition import choose_encoder

from controller.runtime.collectors import write_metrics
from controller.runtime.errors import ManagerMisuse

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Mapping

    from prometheus_client import CollectorRegistry

    Check: TypeAlias = Callable[[], str | None]
    from collections.abc import Awaitable, Callable

    from controller.runtime.debug import DebugPage


# Serves an application at one address until it is stopped.

IDLE_TIMEOUT: Final = 90.0
"""Seconds after which an idle connection is closed."""

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

    async def serve(
        self,
        application: web.Application,
        ready: Callable[[], None],
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Serve until stopped, over TLS if there is a context for it.

        Raises:
            OSError: the address cannot be bound; the message names the options.
        """
        runner = web.AppRunner(
            application,
            access_log=None,
            keepalive_timeout=IDLE_TIMEOUT,
            shutdown_timeout=SHUTDOWN_TIMEOUT,
        )
        await runner.setup()
        try:
            await self._listen(runner, tls)
            self.port = int(runner.addresses[0][1])
            ready()
            await self._stopped.wait()
        finally:
            await runner.cleanup()

    async def _listen(self, runner: web.AppRunner, tls: ssl.SSLContext | None) -> None:
        try:
            await web.TCPSite(runner, self.host or None, self.port, ssl_context=tls).start()
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error
            raise OSError(
                f"cannot listen on {self.host or '*'}:{self.port}: {reason}; choose another "
                f"address with {self._options}"
            ) from error

    def stop(self) -> None:
        """Stop listening; requests in flight are answered."""
        self._stopped.set()


_METRICS_OPTIONS: Final = "--metrics-address (of /manager: -metrics-addr)"
_HEALTH_OPTIONS: Final = "--health-address (of /manager: -health-probe-bind-address)"

_log = structlog.stdlib.get_logger("manta.health")


class Health:
    """Named checks of liveness and readiness.

    A check returns None if all is well, otherwise a sentence, which is public.
    """

    def __init__(self) -> None:
        self._live: dict[str, Check] = {"ping": _ping}
        self._ready: dict[str, Check] = {"ping": _ping}
        self._sealed = False

    def add_readiness(self, name: str, check: Check) -> None:
        """Add a check to `/readyz`.

        Raises:
            ManagerMisuse: it is served already.
        """
        self._add(self._ready, name, check)

    def seal(self) -> None:
        """Accept no more checks."""
        self._sealed = True

    @property
    def endpoints(self) -> Mapping[str, Mapping[str, Check]]:
        """Checks by path."""
        return {"healthz": self._live, "livez": self._live, "readyz": self._ready}

    def _add(self, checks: dict[str, Check], name: str, check: Check) -> None:
        if self._sealed:
            raise ManagerMisuse(f"check {name} comes too late: health is served already")
        checks[name] = check


class MonitoringServer(HttpListener):
    """Serves one address.

    Args:
        address: host, empty for all, and port, 0 for a free one.
        health: what to serve at `/healthz`, `/livez` and `/readyz`; None for none.
        registry: what to serve at `/metrics`; None for none.
    """

    def __init__(
        self,
        address: tuple[str, int],
        *,
        health: Health | None = None,
        registry: CollectorRegistry | None = None,
    ) -> None:
        options = [_METRICS_OPTIONS] if registry is not None else []
        options += [_HEALTH_OPTIONS] if health is not None else []
        super().__init__(*address, " or ".join(options))
        self._health = health
        self._registry = registry
        self.name = f"HTTP server at {self.host or '*'}:{self.port}"

    async def run(self, ready: Callable[[], None]) -> None:
        """Serve until stopped.

        Raises:
            OSError: the address cannot be bound.
        """
        if self._health is not None:
            self._health.seal()
        await self.serve(self._application(), ready)

    def _application(self) -> web.Application:
        application = web.Application()
        if self._health is not None:
            for endpoint, checks in self._health.endpoints.items():
                handler = _Endpoint(endpoint, checks)
                for path in (f"/{endpoint}", f"/{endpoint}/"):
                    application.router.add_get(path, handler.all)
                for path in (f"/{endpoint}/{{check}}", f"/{endpoint}/{{check}}/"):
                    application.router.add_get(path, handler.one)
        if self._registry is not None:
            application.router.add_get("/metrics", self._metrics)
        return application

    async def _metrics(self, request: web.Request) -> web.Response:
        assert self._registry is not None
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        body = await write_metrics(self._registry, encode)
        return web.Response(body=body, headers={"Content-Type": content_type})


class _Endpoint:
    """Serves one set of checks."""

    def __init__(self, name: str, checks: Mapping[str, Check]) -> None:
        self._name = name
        self._checks = checks

    async def all(self, request: web.Request) -> web.Response:
        """Run all checks but the excluded ones; ignore unknown exclusions."""
        excluded = set(request.query.getall("exclude", []))
        lines: list[str] = []
        failed = False
        for name, check in self._checks.items():
            if name in excluded:
                lines.append(f"[+]{name} excluded: ok")
                continue
            reason = _ask(name, check)
            failed = failed or reason is not None
            lines.append(f"[+]{name} ok" if reason is None else f"[-]{name} failed: {reason}")
        lines.append(f"{self._name} check {'failed' if failed else 'passed'}")
        if not failed and "verbose" not in request.query:
            return web.Response(text="ok")
        return web.Response(text="\n".join(lines) + "\n", status=500 if failed else 200)

    async def one(self, request: web.Request) -> web.Response:
        """Run one check."""
        name = request.match_info["check"]
        check = self._checks.get(name)
        if check is None:
            raise web.HTTPNotFound(text=f"there is no check {name}\n")
        reason = _ask(name, check)
        if reason is None:
            return web.Response(text="ok")
        return web.Response(text=f"{reason}\n", status=500)


def _ask(name: str, check: Check) -> str | None:
    try:
        return check()
    except Exception:  # noqa: BLE001  a broken check is a failed check
        _log.exception("check.failed", check=name)
        return "reason withheld"


def _ping() -> str | None:
    return None


# Serves `/debug` on the loopback interface, and nowhere else.
#
# A client that reaches the loopback interface of a pod may forward its ports or run commands in it,
# so the page needs no password. A web page in a browser could reach a forwarded port too, by a name
# of its own that resolves to 127.0.0.1 (DNS rebinding): all names but those of the interface are
# refused.


LOOPBACK: Final = "127.0.0.1"

_HOSTS: Final = frozenset({LOOPBACK, "localhost", "[::1]"})


class DebugServer(HttpListener):
    """A `manager.Runnable` that serves the page.

    Args:
        port: 0 for a free one.
    """

    name = "debug server"

    def __init__(self, port: int, page: DebugPage) -> None:
        super().__init__(LOOPBACK, port, "--debug-port (of /manager: -debug-port)")
        self._page = page

    async def run(self, ready: Callable[[], None]) -> None:
        """Serve until stopped.

        Raises:
            OSError: the port is taken.
        """
        application = web.Application(middlewares=[_only_by_loopback_names])
        application.router.add_get("/debug", self._answer, allow_head=False)
        await self.serve(application, ready)

    async def _answer(self, _request: web.Request) -> web.Response:
        return web.Response(
            body=msgspec.json.encode(self._page.read()),
            content_type="application/json",
            headers={hdrs.CACHE_CONTROL: "no-store", "X-Content-Type-Options": "nosniff"},
        )


@web.middleware
async def _only_by_loopback_names(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    hosts = request.headers.getall(hdrs.HOST, [])
    if len(hosts) != 1 or _without_port(hosts[0]) not in _HOSTS:
        raise web.HTTPForbidden(text="use localhost: any web page can make this name lead here\n")
    return await handler(request)


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name.lower() if colon and port.isdecimal() else host.lower()
