"""Serves `/debug` on the loopback interface, and nowhere else.

A client that reaches the loopback interface of a pod may forward its ports or run commands in it,
so the page needs no password. A web page in a browser could reach a forwarded port too, by a name
of its own that resolves to 127.0.0.1 (DNS rebinding): all names but those of the interface are
refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from aiohttp import hdrs, web

from controller.runtime.health import HttpListener

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from controller.runtime.debug.shape import DebugPage

LOOPBACK: Final = "127.0.0.1"

_HOSTS: Final = frozenset({LOOPBACK, "localhost", "[::1]"})


class DebugServer(HttpListener):
    """A `manager.Runnable` that serves the page.

    Args:
        port: 0 for a free one.
        page: what is served.
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
