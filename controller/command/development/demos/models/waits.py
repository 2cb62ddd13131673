"""The waits of a demo, and the time for which they held a worker of the operator.

The numbers of Manta are the operator's own metrics.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controller.kaito.workspace import WorkspaceKind

if TYPE_CHECKING:
    from collections.abc import Generator

    from prometheus_client import CollectorRegistry

_SECONDS: Final = "controller_runtime_reconcile_time_seconds"


@dataclass(frozen=True, slots=True)
class MeasuredWait:
    """A wait, with what it cost.

    Attributes:
        awaited: what was waited for.
        kaito: what Kaito's worker does, or did in older versions, meanwhile.
        seconds: length of the wait.
        reconciles: number of Manta's reconciles meanwhile.
        held: seconds that these took together.
    """

    awaited: str
    kaito: str
    seconds: float
    reconciles: int
    held: float

    def lines(self) -> list[str]:
        """Return the lines of the summary."""
        manta = f"{self.reconciles} reconciles held a worker for {self.held:.2f} s in all"
        return [
            f"{self.seconds:5.1f} s for {self.awaited}",
            f"        Kaito: {self.kaito}",
            f"        Manta: {manta}",
        ]


class Waits:
    """Measures waits.

    Args:
        registry: registry of the operator.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self.done: list[MeasuredWait] = []

    @contextmanager
    def measure(self, awaited: str, kaito: str) -> Generator[None]:
        """Measure the wait that the block is; one that fails is not recorded."""
        clock = asyncio.get_running_loop().time
        began, reconciles, held = clock(), self._sample("count"), self._sample("sum")
        yield
        self.done.append(
            MeasuredWait(
                awaited,
                kaito,
                clock() - began,
                int(self._sample("count") - reconciles),
                self._sample("sum") - held,
            )
        )

    def _sample(self, part: str) -> float:
        marks = {"controller": WorkspaceKind.name}
        return self._registry.get_sample_value(f"{_SECONDS}_{part}", marks) or 0.0
