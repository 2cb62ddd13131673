"""Lists again what has not shown this process's own writes for long (EXP-39).

Its watch may have lost an event, or have told of an object that does not exist. Nothing else would
end that: the revisions of such a watch advance, and it does not break.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from controller.runtime.caches.cache import Cache
    from controller.runtime.expectations.expectations import Expectations

LATE: Final = 150.0
"""Seconds after which a cache is listed again, and again until it shows the write: half of
those after which the process is unready."""


async def relist_overdue(caches: Callable[[], Iterable[Cache]], expectations: Expectations) -> None:
    """Do it until cancelled."""
    while True:
        await asyncio.sleep(LATE)
        overdue = expectations.overdue(LATE)
        for cache in caches():
            if (cache.scope.resource, cache.scope.namespace) in overdue:
                cache.informer.relist(f"an own write has not been seen for {LATE:.0f} s")
