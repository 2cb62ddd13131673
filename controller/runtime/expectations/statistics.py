"""Numbers of all expectations, for metrics and tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.runtime.expectations.overlay import OverlayIndex
    from controller.runtime.expectations.owners import OwnerIndex

LIVE_READ: Final = "live_read"
"""Key in `ExpectationStatistics.resolved_by` of expectations that a live read resolved."""


@dataclass(frozen=True, slots=True)
class ExpectationStatistics:
    """Numbers for metrics and tests.

    Attributes:
        owners: owners for which anything is recorded.
        expectations: objects with an expectation.
        pending: those of which the store has yet to show a write.
        unknown: writes of unknown outcome.
        oldest_age: seconds since the oldest pending write.
        oldest_unseen: seconds for which the store has not shown what the server answered, at most.
        need_live_read: expectations that only a live read can resolve.
        corrections: reads in which an expectation replaced stale data of a cache.
        live_reads: live reads so far.
        resolved_by: expectations resolved so far, by what resolved them.
    """

    owners: int
    expectations: int
    pending: int
    unknown: int
    oldest_age: float
    oldest_unseen: float
    need_live_read: int
    corrections: int
    live_reads: int
    resolved_by: Mapping[str, int]


def collect(
    overlays: OverlayIndex, owners: OwnerIndex, resolved_by: Mapping[str, int], now: float
) -> ExpectationStatistics:
    """Return the numbers at `now`, clock time in seconds; O(expectations)."""
    expectations = [each for overlay in overlays.all() for each in overlay.expectations()]
    pending = [each for each in expectations if each.pending]
    unseen = [each.unseen_since for each in expectations if each.unseen_since is not None]
    return ExpectationStatistics(
        owners=len(owners.all()),
        expectations=len(expectations),
        pending=len(pending),
        unknown=sum(1 for each in expectations if each.outcome_unknown),
        oldest_age=max((now - each.pending_since for each in pending), default=0.0),
        oldest_unseen=max((now - since for since in unseen), default=0.0),
        need_live_read=sum(1 for each in expectations if each.needs_live_read),
        corrections=sum(overlay.corrections for overlay in overlays.all()),
        live_reads=resolved_by.get(LIVE_READ, 0),
        resolved_by=dict(resolved_by),
    )
