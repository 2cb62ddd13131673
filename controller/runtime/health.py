"""HTTP endpoints for probes and for Prometheus (HLT rules).

`/healthz` and `/livez` report whether the process works, `/readyz` whether it can do its job now.
Each aggregates named checks; `/readyz/<check>` runs one, `?verbose` lists all, `?exclude=<check>`
leaves some out. A failed check gives its reason (CTL-5); the message of an unexpected exception
goes to the log only.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Iterator
from copy import copy
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
import structlog
from aiohttp import hdrs
from aiohttp.web_exceptions import HTTPForbidden, HTTPMethodNotAllowed, HTTPNotFound
from aiohttp.web_response import Response
from aiohttp.web_server import Server
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from controller.runtime.kind import ManagerMisuse

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Mapping

    from aiohttp.web_app import Application
    from aiohttp.web_request import BaseRequest
    from prometheus_client import CollectorRegistry

    Check: TypeAlias = Callable[[], str | None]
    Handler: TypeAlias = Callable[[BaseRequest], Awaitable[Response]]

    from controller.runtime.debug import DebugPage


# Serves an application at one address until it is stopped.

IDLE_TIMEOUT: Final = 90.0
"""Seconds after which an idle connection is closed."""

SHUTDOWN_TIMEOUT: Final = 1.0
"""Seconds in which requests in flight may end when the server stops."""

_CONNECTIONS: Final[dict[str, Any]] = {"access_log": None, "keepalive_timeout": IDLE_TIMEOUT}


class HttpListener:
    """The base of servers.

    Args:
        host: empty for all addresses.
        port: 0 for a free one.
        options: options that choose another address, for the error's text.

    Attributes:
        port: where it listens, once it is ready.
    """

    def __init__(self, host: str, port: int, options: str) -> None:
        self.host = host
        self.port = port
        self._options = options
        self._stopped = asyncio.Event()

    async def serve(self, handler: Handler, ready: Callable[[], None]) -> None:
        """Serve until stopped.

        Raises:
            OSError: the address cannot be bound; the message names the options.
        """
        await self._serve(Server(handler, **_CONNECTIONS), ready, None)

    async def serve_application(
        self,
        application: Application,
        ready: Callable[[], None],
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Serve until stopped, over TLS if there is a context for it.

        Raises:
            OSError: the address cannot be bound; the message names the options.
        """
        from aiohttp.web_runner import AppRunner  # noqa: PLC0415  1.3 MiB that probes do not need

        runner = AppRunner(application, shutdown_timeout=SHUTDOWN_TIMEOUT, **_CONNECTIONS)
        await runner.setup()
        try:
            assert runner.server is not None
            await self._serve(runner.server, ready, tls)
        finally:
            await runner.cleanup()

    async def _serve(
        self, server: Server, ready: Callable[[], None], tls: ssl.SSLContext | None
    ) -> None:
        listening = await self._listen(server, tls)
        try:
            self.port = int(listening.sockets[0].getsockname()[1])
            ready()
            await self._stopped.wait()
        finally:
            listening.close()
            await asyncio.sleep(0)  # what has arrived is answered; idle connections are closed
            server.pre_shutdown()
            await server.shutdown(SHUTDOWN_TIMEOUT)

    async def _listen(self, server: Server, tls: ssl.SSLContext | None) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        try:
            return await loop.create_server(server, self.host or None, self.port, ssl=tls)
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

_READING: Final = ("GET", "HEAD")

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
        await self.serve(self._respond, ready)

    async def _respond(self, request: BaseRequest) -> Response:
        _, endpoint, *rest = request.path.split("/")
        if rest and not rest[-1]:  # a slash at the end
            del rest[-1]
        checks = self._health.endpoints.get(endpoint) if self._health is not None else None
        if checks is None and not (self._registry is not None and request.path == "/metrics"):
            raise HTTPNotFound
        if request.method not in _READING:
            raise HTTPMethodNotAllowed(request.method, _READING)
        if checks is None:
            return await self._metrics(request)
        match rest:
            case []:
                return _all_checks(endpoint, checks, request)
            case [name] if name:
                return _one_check(name, checks)
            case _:
                raise HTTPNotFound

    async def _metrics(self, request: BaseRequest) -> Response:
        assert self._registry is not None
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        body = await write_metrics(self._registry, encode)
        return Response(body=body, headers={"Content-Type": content_type})


def _all_checks(endpoint: str, checks: Mapping[str, Check], request: BaseRequest) -> Response:
    """Run all checks but the excluded ones; ignore unknown exclusions."""
    excluded = set(request.query.getall("exclude", []))
    lines: list[str] = []
    failed = False
    for name, check in checks.items():
        if name in excluded:
            lines.append(f"[+]{name} excluded: ok")
            continue
        reason = _ask(name, check)
        failed = failed or reason is not None
        lines.append(f"[+]{name} ok" if reason is None else f"[-]{name} failed: {reason}")
    lines.append(f"{endpoint} check {'failed' if failed else 'passed'}")
    if not failed and "verbose" not in request.query:
        return Response(text="ok")
    return Response(text="\n".join(lines) + "\n", status=500 if failed else 200)


def _one_check(name: str, checks: Mapping[str, Check]) -> Response:
    check = checks.get(name)
    if check is None:
        raise HTTPNotFound(text=f"there is no check {name}\n")
    reason = _ask(name, check)
    if reason is None:
        return Response(text="ok")
    return Response(text=f"{reason}\n", status=500)


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
        await self.serve(self._respond, ready)

    async def _respond(self, request: BaseRequest) -> Response:
        hosts = request.headers.getall(hdrs.HOST, [])
        if len(hosts) != 1 or _without_port(hosts[0]) not in _HOSTS:
            raise HTTPForbidden(text="use localhost: any web page can make this name lead here\n")
        if request.path != "/debug":
            raise HTTPNotFound
        if request.method != "GET":
            raise HTTPMethodNotAllowed(request.method, ["GET"])
        return Response(
            body=msgspec.json.encode(self._page.read()),
            content_type="application/json",
            headers={hdrs.CACHE_CONTROL: "no-store", "X-Content-Type-Options": "nosniff"},
        )


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name.lower() if colon and port.isdecimal() else host.lower()


# Writes all metrics of a registry as text, in slices between which the event loop runs.

SAMPLES: Final = 100
"""Samples that are written before the event loop runs again."""


async def write_metrics(registry: CollectorRegistry, encode: Callable[[Collector], bytes]) -> bytes:
    """Return the text of all metrics.

    A family that is collected in several parts of the same name is written as one. Families are
    read at different times, so they may show different moments.
    """
    end = encode(_Families(()))
    texts: dict[str, list[bytes]] = {}
    for family in registry.collect():
        for part in _parts(family):
            text = encode(_Families((part,))).removesuffix(end)
            written = texts.setdefault(family.name, [])
            written.append(_without_header(text) if written else text)
            await asyncio.sleep(0)
    return b"".join(text for written in texts.values() for text in written) + end


class _Families(Collector):
    """A collector of families that exist already."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _parts(family: Metric) -> Iterator[Metric]:
    """Yield the family in parts of at most `SAMPLES`; one part if it has none."""
    for start in range(0, max(1, len(family.samples)), SAMPLES):
        part = copy(family)
        part.samples = family.samples[start : start + SAMPLES]
        yield part


def _without_header(text: bytes) -> bytes:
    """Return the lines of samples, which follow those of help, type and unit."""
    while text.startswith(b"#"):
        text = text.partition(b"\n")[2]
    return text
