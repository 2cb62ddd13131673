"""The event loop of the operator: uvloop's, where the extra `uvloop` is installed."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

T = TypeVar("T")


def run_operator(work: Coroutine[Any, Any, T]) -> T:
    """Run the operator until it ends; returns its result."""
    with asyncio.Runner(loop_factory=_new_loop) as runner:
        return runner.run(work)


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        uvloop = import_module("uvloop")
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
