"""Reports of a command: lines for people, or one JSON document for programs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TextIO

    from controller.command.rollout.workload import Workload

_STYLES: Final = {"bold": "1", "red": "31", "green": "32", "yellow": "33"}


class Report:
    """Writes to a stream: in colour on a terminal that wants it.

    Args:
        workload: what the report is about.
        stream: usually standard output.
        as_json: whether only values are written, and no lines.
    """

    def __init__(self, workload: Workload, stream: TextIO, *, as_json: bool) -> None:
        self._workload = workload
        self._stream = stream
        self._as_json = as_json
        self._coloured = stream.isatty() and "NO_COLOR" not in os.environ

    def line(self, text: str, style: str = "") -> None:
        """Print one line of text; `style` is a colour or `bold`."""
        if self._as_json:
            return
        if style and self._coloured:
            text = f"\x1b[{_STYLES[style]}m{text}\x1b[0m"
        self._write(text)

    def table(self, rows: Sequence[Sequence[str]], *, highlighted: int | None = None) -> None:
        """Print columns as kubectl aligns them; the first row is the heading."""
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for number, row in enumerate(rows):
            cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            style = "green" if number == highlighted else "bold" if number == 0 else ""
            self.line("   ".join(cells).rstrip(), style)

    def value(self, fields: dict[str, Any]) -> None:
        """Print the JSON document: these fields after those that identify the object."""
        if not self._as_json:
            return
        workload = self._workload
        identity = {
            "kind": workload.kind.resource.kind,
            "namespace": workload.namespace,
            "object": workload.name,
        }
        encoded = msgspec.json.encode({**identity, **fields})
        self._write(msgspec.json.format(encoded, indent=2).decode())

    def result(self, text: str, **fields: Any) -> None:
        """Report what was done, a predicate of the object."""
        self.value({"result": text, **fields})
        self.line(f"{self._workload} {text}")

    def _write(self, text: str) -> None:
        self._stream.write(f"{text}\n")
        self._stream.flush()
