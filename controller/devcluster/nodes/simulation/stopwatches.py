"""Measures how long each pod has been in its current wait.

A pod's own timestamps have whole seconds. Waits that began while this process watched are timed
exactly; for others (after a restart) the timestamp in the pod is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from controller.devcluster.nodes.components.timestamps import seconds_since

if TYPE_CHECKING:
    from datetime import datetime

    from controller.devcluster.nodes.simulation.lifecycle import Timer


class Time(Protocol):
    """The clock of an event loop."""

    def time(self) -> float:
        """Return monotonic seconds."""
        ...


class Stopwatches:
    """One stopwatch a pod, by uid."""

    def __init__(self, clock: Time) -> None:
        self._clock = clock
        self._running: dict[str, tuple[Timer, float]] = {}

    def begin(self, uid: str, timer: Timer) -> None:
        """Start the wait `timer` now, unless it runs already."""
        present = self._running.get(uid)
        if present is None or present[0] != timer:
            self._running[uid] = (timer, self._clock.time())

    def elapsed(self, uid: str, timer: Timer, now: datetime) -> float:
        """Return the seconds since `timer` began, by its timestamp if its start was not seen."""
        past = max(0.0, seconds_since(timer.start, now) + timer.head_start)
        running, began = self._running.setdefault(uid, (timer, self._clock.time() - past))
        return self._clock.time() - began if running == timer else past

    def forget(self, uid: str) -> None:
        """Drop the stopwatch of a pod that is gone."""
        self._running.pop(uid, None)
