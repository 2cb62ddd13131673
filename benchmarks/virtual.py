"""Runs a coroutine in virtual time: waiting is free, so only work is measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

from controller.testing.virtual_time import VirtualLoop

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Coroutine

T = TypeVar("T")


def run_virtual(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, on a loop of its own."""
    loop = cast("asyncio.AbstractEventLoop", VirtualLoop())
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()
