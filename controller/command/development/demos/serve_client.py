"""A client of Serve applications, for a pod: asks 20 times a second and prints what it got.

It asks less often while its last 20 requests are still open: a machine that cannot answer so many
would otherwise fall ever further behind.

Started as `python -c SOURCE HOST PORT PATH...`, with only the standard library at hand. It keeps
its connections, as clients do, until an answer says that the server closes one, and it repeats
nothing. Each line is the JSON of one second: the answers by path, version, cluster and process, and
why requests failed. A request has failed if it had no answer with status 200 in time.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import time
from collections import Counter

RATE = 20  # requests a second
OPEN = 20  # requests at a time
TIMEOUT = 30.0  # seconds for one request
WORDS = 200  # bytes of an answer that are told when it is a refusal


class Second:
    """The requests that ended in the same second."""

    def __init__(self) -> None:
        self.answers: Counter[tuple[str, ...]] = Counter()
        self.failures: list[str] = []
        self.slowest = 0.0

    def line(self) -> str:
        """Return the counts as JSON."""
        answers = [[*key, count] for key, count in sorted(self.answers.items())]
        counts = {"answers": answers, "failures": self.failures, "slowest": self.slowest}
        return json.dumps({"at": time.time(), **counts})


class Connections:
    """The connections to one service; those that wait for a request are used again."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def ask(self, path: str) -> tuple[str, str, str, str]:
        """Send one request; returns path, version, cluster and process of the answer.

        Raises:
            OSError: there was no connection, or it ended early.
            TimeoutError: there was no answer in time.
            ValueError: the answer has another status, or is not that of such an application.
        """
        async with asyncio.timeout(TIMEOUT):
            reader, writer = await self._connection()
            kept = False
            try:
                writer.write(f"GET {path} HTTP/1.1\r\nHost: {self._target[0]}\r\n\r\n".encode())
                body, kept = await read_answer(reader)
            finally:
                if not kept:
                    writer.close()
        if kept:
            self._idle.append((reader, writer))
        told = json.loads(body)
        return path, str(told["version"]), str(told["cluster"]), str(told["pid"])

    def close(self) -> None:
        """Close the connections that wait for a request."""
        while self._idle:
            self._idle.pop()[1].close()

    async def _connection(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        while self._idle:
            reader, writer = self._idle.pop()
            if not reader.at_eof() and not writer.is_closing():
                return reader, writer
            writer.close()
        return await asyncio.open_connection(*self._target)


async def read_answer(reader: asyncio.StreamReader) -> tuple[bytes, bool]:
    """Return the body of an answer with status 200, and whether the connection stays.

    Raises:
        ValueError: it has another status, or is not complete.
    """
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
    except asyncio.IncompleteReadError:
        raise ValueError("the connection was closed without an answer") from None
    first, *lines = head.strip().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    try:
        body, kept = await _body(reader, headers)
    except asyncio.IncompleteReadError:
        raise ValueError("the connection was closed within the answer") from None
    status = first.partition(" ")[2]
    if not status.startswith("200"):
        raise ValueError(f"{status}: {body[:WORDS].decode(errors='replace').strip()}")
    return body, kept and headers.get("connection") != "close"


async def _body(reader: asyncio.StreamReader, headers: dict[str, str]) -> tuple[bytes, bool]:
    """Return the body, and whether something can come after it."""
    if headers.get("transfer-encoding") == "chunked":
        found = b""
        while length := int(await reader.readuntil(b"\r\n"), 16):
            found += (await reader.readexactly(length + 2))[:length]
        await reader.readexactly(2)
        return found, True
    if "content-length" in headers:
        return await reader.readexactly(int(headers["content-length"])), True
    return await reader.read(), False


class ServeClient:
    """Asks the applications in turn."""

    def __init__(self, host: str, port: int, paths: list[str]) -> None:
        self._connections = Connections(host, port)
        self._paths = itertools.cycle(paths)
        self._second = Second()
        self._free = asyncio.Semaphore(OPEN)

    async def run(self) -> None:
        """Ask until the process ends."""
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._report())
            while True:
                began = loop.time()
                await self._free.acquire()
                tasks.create_task(self._ask(next(self._paths)))
                await asyncio.sleep(began + 1 / RATE - loop.time())

    async def _report(self) -> None:
        """Print a line each second."""
        while True:
            await asyncio.sleep(1.0)
            sys.stdout.write(f"{self._second.line()}\n")
            sys.stdout.flush()
            self._second = Second()

    async def _ask(self, path: str) -> None:
        began, failure = asyncio.get_running_loop().time(), ""
        try:
            answer = await self._connections.ask(path)
        except (OSError, ValueError, KeyError) as error:
            failure = str(error) or type(error).__name__
        else:
            self._second.answers[answer] += 1
        finally:
            self._free.release()
        took = asyncio.get_running_loop().time() - began
        self._second.slowest = max(self._second.slowest, round(took, 3))
        if failure:
            self._second.failures.append(f"{path}: {failure} (after {took:.1f} s)")


if __name__ == "__main__":
    asyncio.run(ServeClient(sys.argv[1], int(sys.argv[2]), sys.argv[3:]).run())
