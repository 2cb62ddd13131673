"""How long each pod has been in its present wait.

A pod says so itself, but in whole seconds. Of waits that began before our eyes we know better;
of the others (after a restart) the timestamp in the pod has to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from controller.devcluster.nodes.timestamps import seconds_since

if TYPE_CHECKING:
    from datetime import datetime

    from controller.devcluster.nodes.lifecycle import Timer


class Time(Protocol):
    """The part of an event loop that tells the time."""

    def time(self) -> float:
        """Seconds on a clock that only goes forward."""
        ...


class Stopwatches:
    """One stopwatch a pod, by uid."""

    def __init__(self, clock: Time) -> None:
        self._clock = clock
        self._running: dict[str, tuple[Timer, float]] = {}

    def begin(self, uid: str, timer: Timer) -> None:
        """The wait `timer` begins now, unless it is running already."""
        present = self._running.get(uid)
        if present is None or present[0] != timer:
            self._running[uid] = (timer, self._clock.time())

    def elapsed(self, uid: str, timer: Timer, now: datetime) -> float:
        """Seconds since `timer` began; if that was not seen, by the timestamp in the pod."""
        past = max(0.0, seconds_since(timer.start, now) + timer.head_start)
        running, began = self._running.setdefault(uid, (timer, self._clock.time() - past))
        return self._clock.time() - began if running == timer else past

    def forget(self, uid: str) -> None:
        """The pod is gone."""
        self._running.pop(uid, None)
