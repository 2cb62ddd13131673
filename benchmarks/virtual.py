"""Runs a coroutine in virtual time: waiting is free, so only work is measured."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar, cast

from controller.testing.virtual_time import VirtualLoop

T = TypeVar("T")


def run_virtual(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, on a loop of its own."""
    loop = cast("asyncio.AbstractEventLoop", VirtualLoop())
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()
