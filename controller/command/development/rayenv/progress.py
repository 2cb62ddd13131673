"""Shows the progress of creating an environment: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.progress import TaskID


class ProgressDisplay(Protocol):
    """Shows the progress of creating an environment."""

    def step(self, text: str) -> None:
        """Announce the next step."""
        ...

    def advance(self, done: int, total: int) -> None:
        """Report how much of the current step is done."""
        ...

    def close(self) -> None:
        """Leave the terminal as it was."""
        ...


class PlainProgress:
    """A line for every step, and one for every quarter of a step."""

    def __init__(self) -> None:
        self._quarter = 0

    def step(self, text: str) -> None:
        """Print the step."""
        self._quarter = 0
        self._print(text)

    def advance(self, done: int, total: int) -> None:
        """Print how much is done, once for every quarter."""
        quarter = 4 * done // max(total, 1)
        if quarter > self._quarter:
            self._quarter = quarter
            self._print(f"  {done} of {total}")

    def close(self) -> None:
        """Do nothing."""

    def _print(self, text: str) -> None:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


class LiveProgress:
    """A bar for every step. Needs the `cli` extra."""

    def __init__(self) -> None:
        from rich.console import Console  # noqa: PLC0415  an extra
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
            console=Console(stderr=True),
        )
        self._bars.start()
        self._present: TaskID | None = None

    def step(self, text: str) -> None:
        """Finish the previous bar and start a new one."""
        self._finish()
        self._present = self._bars.add_task(text, total=None)

    def advance(self, done: int, total: int) -> None:
        """Advance the bar."""
        if self._present is not None:
            self._bars.update(self._present, completed=done, total=total)

    def close(self) -> None:
        """Leave the last bars on the terminal."""
        self._bars.stop()

    def _finish(self) -> None:
        if self._present is not None:
            self._bars.update(self._present, completed=1, total=1)


def progress_for_people() -> ProgressDisplay:
    """Return bars if standard error is a terminal and `rich` is there, else plain lines."""
    if sys.stderr.isatty() and "NO_COLOR" not in os.environ:
        try:
            return LiveProgress()
        except ImportError:
            pass
    return PlainProgress()
