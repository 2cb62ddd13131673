"""Splits a stream of chunks into lines of any size up to a cap (INF-28).

HTTP libraries limit a line to some tens of kilobytes, which one large object exceeds.
"""

from __future__ import annotations

from informers.errors import Malformed


class LineSplitter:
    """Collects chunks, gives back whole lines. Takes time linear in the bytes fed.

    Args:
        limit: most bytes that one line may have.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that `chunk` completes, without their ends; empty lines are left out.

        Raises:
            Malformed: a line grows beyond the limit.
        """
        *complete, rest = chunk.split(b"\n")
        lines: list[bytes] = []
        for piece in complete:
            self._append(piece)
            lines.append(self.tail())
        self._append(rest)
        return [line for line in lines if line]

    def tail(self) -> bytes:
        """What came after the last line end; taken out."""
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
