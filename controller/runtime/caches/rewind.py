"""Keeps plans from a mixture of two histories after the server went back in time (EXP-45).

The caches notice a restored database one after another. Between the first and the last of them, one
cache may show what another has never heard of. So everything that is planned and written is held
until each cache was read at quorum since, whatever its revision is: the restored server may have
passed it meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from controller.runtime.caches.cache import Cache

_log = structlog.stdlib.get_logger("manta.caches")


class Rewind:
    """The caches that are still to be read after a sign that the server went back in time.

    Args:
        caches: returns all of them.
        now: monotonic seconds.
        on_begin: called when the first sign is seen.
        on_end: called when all caches were read.
    """

    def __init__(
        self,
        caches: Callable[[], Iterable[Cache]],
        *,
        now: Callable[[], float],
        on_begin: Callable[[], None],
        on_end: Callable[[], None],
    ) -> None:
        self._caches = caches
        self._now = now
        self._on_begin = on_begin
        self._on_end = on_end
        self._awaited: dict[Cache, float] = {}
        self._began = 0.0

    @property
    def awaited(self) -> list[Cache]:
        """Caches that are still to be read; empty if nothing is held."""
        return list(self._awaited)

    def sign(self, sign: str, *, read: Cache | None = None) -> None:
        """Have all caches listed again, but for the one that was `read` and gave the sign.

        What a cache says that is awaited, and an answer to a request meanwhile, is the same news.
        """
        if self._awaited and (read is None or read in self._awaited):
            if read is not None:
                self.forget(read)
            return
        now, begins = self._now(), not self._awaited
        self._awaited = {cache: now for cache in self._caches() if cache is not read}
        for cache in self._awaited:
            cache.informer.relist(sign)
        if begins and self._awaited:
            self._began = now
            _log.warning("plans.held", sign=sign, caches=_names(self._awaited))
            self._on_begin()

    def advanced(self, cache: Cache) -> None:
        """Note a change: the cache counts as read if a quorum read began since the sign."""
        since = self._awaited.get(cache)
        read = cache.informer.quorum_read
        if since is not None and read is not None and read >= since:
            self.forget(cache)

    def forget(self, cache: Cache) -> None:
        """Wait for this cache no longer."""
        if self._awaited.pop(cache, None) is not None:
            self._end_if_read()

    def _end_if_read(self) -> None:
        if not self._awaited:
            _log.info("plans.resumed", seconds=round(self._now() - self._began, 1))
            self._on_end()


def _names(caches: Iterable[Cache]) -> list[str]:
    return sorted(cache.informer.name for cache in caches)
