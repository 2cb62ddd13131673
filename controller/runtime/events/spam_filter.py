"""Limits the events about one object, as upstream's older recorder does (EVT-1)."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

BURST = 25
"""Events about one object and of one type that pass at once."""

RESERVED = 5
"""Events out of `BURST` that are reserved for events which are not one of many."""

REFILL = 300.0
"""Seconds after which one more passes."""

CAPACITY = 4096
"""Buckets kept; the one that was used longest ago is discarded first."""


@dataclass(slots=True)
class _Bucket:
    """Tokens left for one object and type."""

    tokens: float
    filled: float


class SpamFilter:
    """A token bucket for each object and event type, whatever the reason of the event."""

    def __init__(self) -> None:
        self._buckets: OrderedDict[tuple[str, str], _Bucket] = OrderedDict()

    def passes(
        self,
        regarding: str,
        type: str,  # noqa: A002  the field's name
        now: float,
        *,
        one_of_many: bool = False,
    ) -> bool:
        """Take a token for an event about this object; False if none is left.

        Args:
            regarding: identifies the object.
            type: type of the event.
            now: monotonic seconds.
            one_of_many: whether it is about one of many parts of the object.
        """
        name = (regarding, type)
        bucket = self._buckets.setdefault(name, _Bucket(BURST, now))
        self._buckets.move_to_end(name)
        if len(self._buckets) > CAPACITY:
            self._buckets.popitem(last=False)
        bucket.tokens = min(BURST, bucket.tokens + (now - bucket.filled) / REFILL)
        bucket.filled = now
        if bucket.tokens < 1 + RESERVED * one_of_many:
            return False
        bucket.tokens -= 1
        return True
