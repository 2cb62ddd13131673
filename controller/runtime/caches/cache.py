"""One informer and what is known of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from controller.runtime.expectations.cache_barrier import CacheBarrier, CacheScope
    from informers import SharedInformer, SourceError, Undecodable


@dataclass(slots=True, eq=False)
class Cache:
    """One informer and what is known of it.

    Attributes:
        scope: what it watches.
        informer: fills the store.
        barrier: waits until the store is up to date.
        last_error: the error of the request that failed last, also if later ones succeeded; None
            until one fails, and again when a confirmation begins.
        reported: keys of objects that cannot be decoded, with the reasons already reported.
    """

    scope: CacheScope
    informer: SharedInformer[Any]
    barrier: CacheBarrier
    last_error: SourceError | None = None
    reported: dict[str, str] = field(default_factory=dict[str, str])

    def note_error(self, error: SourceError) -> None:
        """Record that a request failed; keep the error without its traceback."""
        error.__traceback__ = error.__cause__ = error.__context__ = None
        self.last_error = error

    def newly_quarantined(self) -> list[Undecodable]:
        """Return the objects that can no longer be decoded, each once for each reason."""
        present = self.informer.quarantined
        if not present and not self.reported:
            return []
        found = [odd for key, odd in present.items() if self.reported.get(key) != odd.reason]
        self.reported = {key: odd.reason for key, odd in present.items()}
        return found
