"""The steps of a demo: announced, limited in time, and timed."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from controller.command.development.view import Screen


@dataclass(slots=True)
class Steps:
    """Completed steps and their seconds; the last one may have failed."""

    done: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])

    def lines(self) -> list[str]:
        """Return the lines of the summary."""
        return [f"{name:<28}{seconds:6.2f} s" for name, seconds in self.done]


class Step:
    """Announces a step, limits its time, and records how long it took.

    Args:
        name: for people.
        limit: seconds after which it has failed.
        screen: where it is announced.
        steps: where it is noted.
    """

    def __init__(self, name: str, limit: float, screen: Screen, steps: Steps) -> None:
        self._name = name
        self._screen = screen
        self._steps = steps
        self._seconds = limit
        self._limit = asyncio.timeout(limit)
        self._began = 0.0

    async def __aenter__(self) -> None:
        """Begin.

        Raises, at the end:
            StepFailed: it took too long.
        """
        self._screen.headline(self._name)
        self._began = asyncio.get_running_loop().time()
        self._steps.done.append((self._name, 0.0))
        await self._limit.__aenter__()

    async def __aexit__(self, *exc: object) -> None:
        """Record how long it took."""
        seconds = asyncio.get_running_loop().time() - self._began
        self._steps.done[-1] = (self._name, seconds)
        try:
            await self._limit.__aexit__(*exc)  # type: ignore[arg-type]
        except TimeoutError as error:
            raise StepFailed(f"not reached within {self._seconds:.0f} s: {self._name}") from error


class StepFailed(Exception):  # noqa: N818  named for what happened
    """A step did not reach its goal."""


def failure_text(error: Exception) -> str:
    """Return the reasons why a demo failed, without the groups that its tasks put around them."""
    if not isinstance(error, ExceptionGroup):
        return str(error)
    group = cast("ExceptionGroup[Exception]", error)
    return "; ".join(map(failure_text, group.exceptions))
