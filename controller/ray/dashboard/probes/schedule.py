"""The probes of one head: their subscribers and their due times."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from controller.ray.dashboard.probes.state import ProbeState
from workqueue import KeyHeap

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from controller.ray.dashboard.probes.probe import Probe
    from controller.ray.dashboard.settings import DashboardSettings
    from controller.ray.dashboard.subscriber import Subscriber


class ProbeSchedule:
    """The probes of one head. Times are in seconds of the loop's clock.

    A probe that open commands invalidate is not due before the last of them has ended.

    Args:
        settings: intervals and thresholds.
    """

    def __init__(self, settings: DashboardSettings) -> None:
        self._settings = settings
        self._states: dict[Probe, ProbeState] = {}
        self._due: KeyHeap[Probe] = KeyHeap()
        self._subscribed: Counter[Subscriber] = Counter()
        self._invalidating: Counter[Probe] = Counter()

    def __len__(self) -> int:
        """Return the number of probes."""
        return len(self._states)

    def get(self, probe: Probe) -> ProbeState | None:
        """Return the state of a probe; None if it has no subscriber."""
        return self._states.get(probe)

    def items(self) -> Iterable[tuple[Probe, ProbeState]]:
        """Yield all probes with their states."""
        return self._states.items()

    def states(self) -> Iterable[ProbeState]:
        """Yield the states of all probes."""
        return self._states.values()

    def subscribers(self) -> tuple[Subscriber, ...]:
        """Return all objects that subscribe to any probe, each once."""
        return tuple(self._subscribed)

    def has_subscriber(self, subscriber: Subscriber) -> bool:
        """Return whether this object subscribes to any probe."""
        return subscriber in self._subscribed

    def subscribe(
        self, probe: Probe, subscriber: Subscriber, interval: float, now: float, wall: datetime
    ) -> None:
        """Add or renew a subscription; either makes the next request come sooner."""
        state = self._states.get(probe)
        if state is None:
            state = self._states[probe] = ProbeState(
                self._settings, now=now, wall=wall, longest_interval=probe.longest_interval
            )
            self._push(probe, now)
        if subscriber not in state.subscribers:
            self._subscribed[subscriber] += 1
        state.subscribers[subscriber] = interval
        due = state.expedite(now)
        if due is not None and probe in self._due and self._due.rank(probe) > due:
            self._due.push(probe, due)

    def unsubscribe(self, probe: Probe, subscriber: Subscriber) -> bool:
        """Remove a subscriber; return whether that was its last subscription."""
        state = self._states[probe]
        del state.subscribers[subscriber]
        if not state.subscribers:
            del self._states[probe]
            self._due.discard(probe)
        self._subscribed[subscriber] -= 1
        if self._subscribed[subscriber]:
            return False
        del self._subscribed[subscriber]
        return True

    def invalidate(self, probes: Iterable[Probe], wall: datetime) -> None:
        """Forget the values of these probes until `release` was called as often."""
        for probe in probes:
            self._invalidating[probe] += 1
            state = self._states.get(probe)
            if state is not None:
                state.invalidate(wall)
                self._due.discard(probe)

    def release(self, probes: Iterable[Probe], now: float) -> None:
        """Let these probes be sent again: at once unless another command invalidates them."""
        for probe in probes:
            self._invalidating[probe] -= 1
            if not self._invalidating[probe]:
                del self._invalidating[probe]
                if probe in self._states:
                    self._push(probe, now)

    def next_due(self) -> float:
        """Return the time of the next probe; infinite if none is due."""
        return self._due.lowest() if self._due else math.inf

    def pop(self) -> Probe:
        """Take the probe that has been due longest."""
        return self._due.pop()

    def reschedule(self, probe: Probe, state: ProbeState, now: float) -> None:
        """Schedule the request after one that has ended, if this is still the probe's state."""
        if self._states.get(probe) is state:
            self._push(probe, state.next_due(now))

    def _push(self, probe: Probe, when: float) -> None:
        if not self._invalidating[probe]:
            self._due.push(probe, when)
