"""Splits a stream of chunks into lines up to a maximum size (INF-28).

HTTP libraries limit a line to some tens of kilobytes, which a large object exceeds.
"""

from __future__ import annotations

from informers.errors import Malformed


class LineSplitter:
    """Collects chunks and returns complete lines, in time linear in the bytes fed.

    Args:
        limit: maximum bytes of one line.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that `chunk` completes, without line ends and without empty lines.

        Raises:
            Malformed: a line exceeds the limit.
        """
        *complete, rest = chunk.split(b"\n")
        lines: list[bytes] = []
        for piece in complete:
            self._append(piece)
            lines.append(self.tail())
        self._append(rest)
        return [line for line in lines if line]

    def tail(self) -> bytes:
        """Remove and return the bytes after the last line end."""
        line = b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        return line

    def _append(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._limit:
            raise Malformed(f"a line of more than {self._limit} bytes")
        if piece:
            self._parts.append(piece)
