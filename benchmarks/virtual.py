"""Runs a coroutine in virtual time: waiting is free, so only work is measured."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from tests.virtual_time import VirtualLoop

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")


def run_virtual(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, on a loop of its own."""
    loop: asyncio.AbstractEventLoop = VirtualLoop()
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()
