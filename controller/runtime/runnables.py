"""Parts that an operator runs besides servers and caches: the writers, the recorder of events."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from controller.runtime.caches.caches import Caches
    from controller.runtime.events.recorder import Recorder
    from controller.runtime.reconcile.controller import Controller


class Writers:
    """Everything that writes: controllers, once the caches are confirmed.

    Args:
        caches: to be confirmed.
        controllers: to be run.
        leads_since: called as soon as this process leads; returns since when.
    """

    name = "controllers"

    def __init__(
        self,
        caches: Caches,
        controllers: Sequence[Controller[Any]],
        leads_since: Callable[[], float],
    ) -> None:
        self._caches = caches
        self._leads_since = leads_since
        self._controllers = controllers
        self._stopped = asyncio.Event()

    async def run(self, ready: Callable[[], None]) -> None:
        """Run until `stop`; ready once the caches are confirmed."""
        if not await self._confirmed():
            return
        ready()
        async with asyncio.TaskGroup() as group:
            for each in self._controllers:
                group.create_task(each.run(), name=each.name)

    def stop(self) -> None:
        """End the controllers once their present requests have ended."""
        self._stopped.set()
        for each in self._controllers:
            each.close()

    async def _confirmed(self) -> bool:
        """Confirm the caches; False if a stop came first."""
        confirming = asyncio.create_task(self._caches.confirm(self._leads_since()))
        stopped = asyncio.create_task(self._stopped.wait())
        try:
            await asyncio.wait({confirming, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if confirming.done():
                confirming.result()
            return not self._stopped.is_set()
        finally:
            confirming.cancel()
            stopped.cancel()
            await asyncio.wait({confirming, stopped})


class Recording:
    """The event recorder, which flushes when it is stopped."""

    name = "event recorder"

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._stopped = asyncio.Event()

    async def run(self, ready: Callable[[], None]) -> None:
        """Record until `stop`, then send what is left."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._recorder.run())
            ready()
            await self._stopped.wait()
            await self._recorder.flush()

    def stop(self) -> None:
        """Send what is left, and end."""
        self._stopped.set()
