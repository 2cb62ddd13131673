"""Alters answers on their way to the client: whole bodies, and the lines of watches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import aclosing
from typing import TypeAlias

from controller.kube.transport import Chunks, RawResponse, Request, Transport
from controller.testing.journal import Attributes, attributes_of
from informers.decoding import LineSplitter

Lines: TypeAlias = Callable[[Attributes, bytes], Iterable[bytes]]
Answers: TypeAlias = Callable[[Attributes, Request], RawResponse | None]

_LINE_LIMIT = 1 << 30


def unaltered(_about: Attributes, line: bytes) -> Iterable[bytes]:
    return (line,)


class Tampering:
    """`Transport` in front of another one that alters what comes back.

    Attributes:
        lines: gives what is delivered in place of each line of a watch.
        answers: gives the answer in place of the server's, or None.
    """

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.lines: Lines = unaltered
        self.answers: Answers = lambda _about, _request: None

    async def request(self, request: Request) -> RawResponse:
        about = attributes_of(request)
        answer = self.answers(about, request)
        if answer is not None:
            return answer
        status, headers, chunks = await self._inner.request(request)
        if request.watching and status == 200:
            chunks = self._altered(about, chunks)
        return status, headers, chunks

    async def _altered(self, about: Attributes, chunks: Chunks) -> Chunks:
        splitter = LineSplitter(_LINE_LIMIT)
        async with aclosing(chunks):
            async for chunk in chunks:
                for line in splitter.feed(chunk):
                    for each in self.lines(about, line):
                        yield each + b"\n"
