"""Virtual time: an event loop whose clock jumps to the next timer when there is nothing to do."""

from __future__ import annotations

import math

import async_solipsism


class VirtualLoop(async_solipsism.EventLoop):
    """Virtual time whose timers fall on ticks of the clock, and never early.

    Two sums of the same delays may differ by a rounding error, which the clock cannot show: it
    warns, and whoever waits for the rest of his delay does so for ever.
    """

    def call_at(self, when, callback, *args, context=None):
        resolution = self._clock_resolution
        ticks = math.ceil(when / resolution)
        while ticks * resolution < when:
            ticks += 1
        return super().call_at(ticks * resolution, callback, *args, context=context)
