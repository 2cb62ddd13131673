"""The output of a command: lines for people, or JSON for programs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final, TextIO

import msgspec

_STYLES: Final = {
    "bold": "1", "red": "31", "green": "32", "yellow": "33", "magenta": "35", "cyan": "36",
}  # fmt: skip


class CommandOutput:
    """Writes lines, in colour on a terminal that wants it, or only documents `as_json`."""

    def __init__(self, stream: TextIO, *, as_json: bool) -> None:
        self._stream = stream
        self._as_json = as_json
        self.coloured = stream.isatty() and "NO_COLOR" not in os.environ

    def line(self, text: str, style: str = "") -> None:
        """Print one line of text; `style` is a colour or `bold`."""
        if not self._as_json:
            self._write(self.styled(text, style))

    def styled(self, text: str, style: str) -> str:
        """Return the text in this style, if lines may have colours."""
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if style and self.coloured else text

    def table(self, rows: Sequence[Sequence[str]], *, highlighted: int | None = None) -> None:
        """Print columns as kubectl aligns them; the first row is the heading."""
        for number, line in enumerate(aligned(rows)):
            style = "green" if number == highlighted else "bold" if number == 0 else ""
            self.line(line, style)

    def document(self, value: Any, *, in_one_line: bool = False) -> None:
        """Print the value as JSON."""
        if self._as_json:
            encoded = msgspec.json.encode(value)
            text = encoded if in_one_line else msgspec.json.format(encoded, indent=2)
            self._write(text.decode())

    def _write(self, text: str) -> None:
        self._stream.write(f"{text}\n")
        self._stream.flush()


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows as lines whose columns begin at the same place."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def duration(seconds: float) -> str:
    """Return `45 s`, `12 min`, `1 h 20 min`, `3 d 4 h`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    if hours >= 48:
        days, hours = divmod(hours, 24)
        return f"{days} d {hours} h" if hours else f"{days} d"
    if not hours:
        return f"{minutes} min"
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"
