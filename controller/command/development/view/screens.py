"""Output of a view: a picture redrawn in place, or plain lines."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


class Screen(Protocol):
    """Output of a view."""

    def headline(self, text: str) -> None:
        """Announce the next step."""
        ...

    def change(self, text: str) -> None:
        """Report one change."""
        ...

    def draw(self, picture: Callable[[], Any]) -> None:
        """Draw the whole picture, if this screen shows one.

        Args:
            picture: makes something that `rich` can render.
        """
        ...

    def close(self) -> None:
        """Leave the terminal as it was."""
        ...


class PlainScreen:
    """One line a change, with the seconds since the start: for pipes and logs."""

    def __init__(self, elapsed: Callable[[], float]) -> None:
        self._elapsed = elapsed

    def headline(self, text: str) -> None:
        """Print a step."""
        self._print(f"== {text}")

    def change(self, text: str) -> None:
        """Print a change."""
        self._print(f"   {text}")

    def draw(self, picture: Callable[[], Any]) -> None:
        """Do nothing: plain output has no picture."""

    def close(self) -> None:
        """Do nothing."""

    def _print(self, text: str) -> None:
        sys.stdout.write(f"{self._elapsed():7.2f}s {text}\n")
        sys.stdout.flush()


class LiveScreen:
    """A picture that is redrawn in place, for terminals. Needs the `cli` extra."""

    def __init__(self, elapsed: Callable[[], float]) -> None:
        from rich.live import Live  # noqa: PLC0415  an extra

        self._elapsed = elapsed
        self._steps: list[str] = []
        self._picture: Callable[[], Any] = str
        self._live = Live(refresh_per_second=12, transient=False)
        self._live.start()

    def headline(self, text: str) -> None:
        """Add a step to the list above the picture."""
        self._steps.append(f"{self._elapsed():6.2f}s  {text}")
        self.draw(self._picture)

    def change(self, text: str) -> None:
        """Do nothing: the picture already shows changes."""

    def draw(self, picture: Callable[[], Any]) -> None:
        """Redraw the steps and the picture."""
        from rich.console import Group  # noqa: PLC0415  an extra
        from rich.text import Text  # noqa: PLC0415

        self._picture = picture
        steps = (Text(step, style="bold") for step in self._steps)
        self._live.update(Group(*steps, picture()))

    def close(self) -> None:
        """Leave the last picture on the terminal."""
        self._live.stop()


def screen_for(elapsed: Callable[[], float]) -> Screen:
    """Return a live screen on a terminal, else (or with `NO_COLOR`, without `rich`) lines."""
    if sys.stdout.isatty() and "NO_COLOR" not in os.environ:
        try:
            return LiveScreen(elapsed)
        except ImportError:
            pass
    return PlainScreen(elapsed)
