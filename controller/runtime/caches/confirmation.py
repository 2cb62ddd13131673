"""Waits until every cache has seen what was there before (EXP-27)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from controller.kube.source import translate_errors
from controller.runtime.caches.diagnostics import explain
from controller.runtime.errors import SyncTimeout
from informers import SourceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controller.runtime.caches.cache import Cache

RETRY: Final = 2.0
"""Seconds between two quorum reads of one cache."""

_log = structlog.stdlib.get_logger("manta.caches")


async def confirm(
    caches: Sequence[Cache],
    seconds: float,
    *,
    since: float,
) -> None:
    """Wait until every cache has seen what was there before `since`.

    Raises:
        SyncTimeout: this took longer than `seconds`; the message gives the cause.
    """
    try:
        async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
            for cache in caches:
                group.create_task(_confirm(cache, since))
    except TimeoutError:
        refused = [cache for cache in caches if cache.last_error is not None]
        if refused:
            raise SyncTimeout(explain(refused, seconds)) from None
        raise SyncTimeout(
            f"Gave up after {seconds:.0f} s: the caches did not reach the revision "
            "that the API server had at the start, so acting on them would not be safe."
        ) from None


async def _confirm(cache: Cache, since: float) -> None:
    while True:
        cache.last_error = None
        try:
            with translate_errors():
                return await cache.barrier.wait(since)
        except SourceError as error:
            cache.note_error(error)
            _log.warning("quorum_read.failed", cache=cache.informer.name, error=str(error))
            await asyncio.sleep(RETRY)
