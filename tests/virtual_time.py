"""Virtual time: an event loop whose clock jumps to the next timer when there is nothing to do."""

from __future__ import annotations

import math
from itertools import count
from typing import Self

import async_solipsism


class Moment(float):
    """When a timer is due; of two at the same time the one that was set first is due first.

    asyncio leaves their order to its heap, whose shape depends on which timers were cancelled
    before, and in which order: a `TaskGroup` cancels its tasks in the order of their addresses.
    """

    __slots__ = ("place",)

    def __new__(cls, when: float, place: int) -> Self:
        moment = super().__new__(cls, when)
        moment.place = place
        return moment

    def __lt__(self, other: float) -> bool:
        if self == other:
            return isinstance(other, Moment) and self.place < other.place
        return float.__lt__(self, other)


class VirtualLoop(async_solipsism.EventLoop):
    """Virtual time whose timers fall on ticks of the clock, never early, in the order of their
    setting.

    Two sums of the same delays may differ by a rounding error, which the clock cannot show: it
    warns, and whoever waits for the rest of his delay does so for ever.
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._places = count()
        self._tick = self._clock_resolution
        self._clock_resolution = self._tick / 2  # asyncio runs timers early by as much

    def call_at(self, when, callback, *args, context=None):
        ticks = math.ceil(when / self._tick)
        while ticks * self._tick < when:
            ticks += 1
        moment = Moment(ticks * self._tick, next(self._places))
        return super().call_at(moment, callback, *args, context=context)

    def block(self, seconds):
        """Let time pass in the midst of a callback, as work that blocks the loop does."""
        self._selector.clock.advance(seconds)
