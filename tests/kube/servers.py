"""Faulty servers on the loopback interface."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable


class RawServer:
    """Reads requests (head and body) and lets `respond` write any bytes.

    `respond` gets method, target, header fields and the writer; it closes the writer to end the
    connection, which is otherwise kept. `ended` is set when a connection is over.
    """

    def __init__(
        self,
        respond: Callable[[str, str, dict[str, str], asyncio.StreamWriter], Awaitable[None]],
        *,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._respond = respond
        self._tls = tls
        self._tasks: set[asyncio.Task[None]] = set()
        self.connections = 0
        self.ended = asyncio.Event()
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.port = 0

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://localhost:{self.port}"

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._accepted, "localhost", 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            while not writer.is_closing():
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                method, target, _ = head[0].split(" ")
                fields = dict(line.lower().split(": ", 1) for line in head[1:] if line)
                await reader.readexactly(int(fields.get("content-length", 0)))
                self.requests.append((method, target, fields))
                await self._respond(method, target, fields, writer)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            self.ended.set()
            self._tasks.discard(task)


class HoldingServer(RawServer):
    """Answers with the target as body; its first connections get no response."""

    def __init__(self, *, silent_connections: int) -> None:
        super().__init__(self._echo)
        self._silent = silent_connections

    async def _echo(self, method, target, fields, writer: asyncio.StreamWriter) -> None:
        if self.connections <= self._silent:
            await asyncio.Event().wait()
        body = target.encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
