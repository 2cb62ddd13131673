"""Shared by all tests: virtual time unless a test asks for the real one."""

from __future__ import annotations

import asyncio
import math
import os
from typing import TYPE_CHECKING

import async_solipsism

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pytest


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


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run every coroutine test in virtual time, save those that need the real one."""
    against_real_server = "MANTA_TEST_KUBECONFIG" in os.environ
    if against_real_server or item.get_closest_marker("real_time"):
        return {"real": asyncio.new_event_loop}
    return {"virtual": VirtualLoop}
