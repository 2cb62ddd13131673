"""One informer and what is known of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from controller.runtime.expectations.cache_barrier import CacheBarrier, CacheScope
    from informers import SharedInformer, SourceError


@dataclass(slots=True)
class Cache:
    """One informer and what is known of it.

    Attributes:
        scope: what it watches.
        informer: fills the store.
        barrier: waits until the store is up to date.
        last_error: why the last request failed, None if it succeeded.
        quarantined: keys of objects that cannot be decoded, with the reasons already reported.
    """

    scope: CacheScope
    informer: SharedInformer[Any]
    barrier: CacheBarrier
    last_error: SourceError | None = None
    quarantined: dict[str, str] = field(default_factory=dict[str, str])
