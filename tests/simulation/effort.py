"""How many requests an operator spends on what does not succeed or does not last."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque

from controller.testing.faults import JournalEntry
from tests.simulation.memory import SUCCESS

WINDOW = 300.0
"""Seconds in which the writes of an object are counted."""

MOST_FAILED = 80
"""Writes of one sort that fail, of one object and all that is created for it."""

MOST_REPEATED = 300
"""Patches of one object that succeed: one a second, as often as a status may be written while an
autoscaler gives orders, pods come and go, and an update replaces them."""

MINUTE, MOST_A_MINUTE = 60.0, 200
"""Seconds, and requests in them about one object and all that is created for it: a RayService that
is edited twice within a minute builds three clusters, with some fifty requests each."""


class Effort:
    """Counts the writes of one operator process, by object and sort."""

    def __init__(self, loop: asyncio.AbstractEventLoop, violations: list[str]) -> None:
        self._loop = loop
        self._violations = violations
        self._times: defaultdict[tuple[str, ...], deque[float]] = defaultdict(deque)

    def __call__(self, entry: JournalEntry) -> None:
        about = entry.attributes
        if about.verb not in {"list", "watch"}:
            self._count(("requests", about.name.split("-")[0]), MOST_A_MINUTE, MINUTE)
        if not about.writes or about.resource == "events.events.k8s.io":
            return
        what = (about.verb, about.resource, about.subresource)
        if entry.outcome not in SUCCESS:
            self._count(("failed", about.name.split("-")[0], *what), MOST_FAILED)
        elif about.verb == "patch":
            self._count(("patch", about.name, *what), MOST_REPEATED)

    def _count(self, what: tuple[str, ...], most: int, window: float = WINDOW) -> None:
        now, times = self._loop.time(), self._times[what]
        times.append(now)
        while times[0] < now - window:
            times.popleft()
        if len(times) == most:
            self._violations.append(f"{now:.3f} s: {most} of {what} within {window:.0f} s")
