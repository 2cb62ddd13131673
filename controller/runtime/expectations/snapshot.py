"""A snapshot of single expectations, for the debug page."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import nsmallest
from typing import TYPE_CHECKING, Any, Final

from controller.runtime.plan import verb_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controller.runtime.expectations.expectation import Expectation
    from controller.runtime.expectations.overlay import OverlayIndex
    from controller.runtime.expectations.owners import Owner, OwnerIndex


@dataclass(frozen=True, slots=True)
class ExpectationSnapshot:
    """One expectation.

    Attributes:
        object: resource and key of the object.
        owners: on whose behalf it is expected.
        awaited: the change that is expected; empty for an entry that is only kept.
        kept: why an entry is kept that awaits nothing.
        seconds: seconds since it is awaited, or since an entry that is kept changed.
        live_reads: live reads since the last change.
        error: how the last attempt of a write of unknown outcome failed.
    """

    object: str
    owners: tuple[Owner, ...]
    awaited: str
    kept: str
    seconds: float
    live_reads: int
    error: str


def oldest(
    expectations: Iterable[Expectation[Any]], owners: OwnerIndex, now: float, limit: int
) -> list[ExpectationSnapshot]:
    """Return the oldest expectations at `now` (clock time), those that await something first."""
    found = nsmallest(limit, expectations, key=lambda each: (not each.pending, _since(each)))
    return [_snapshot(each, owners, now) for each in found]


def _snapshot(each: Expectation[Any], owners: OwnerIndex, now: float) -> ExpectationSnapshot:
    states = owners.find(each.owners)
    failure = each.unknown_failure
    return ExpectationSnapshot(
        object=str(each.reference),
        owners=tuple(owner for state in states for owner in state.owners.values()),
        awaited=_awaited(each),
        kept="" if each.pending else _kept(each),
        seconds=now - _since(each),
        live_reads=each.live_reads,
        error=f"{failure.reason}: {failure.message}" if failure is not None else "",
    )


def _since(each: Expectation[Any]) -> float:
    if each.unknown_since is not None:
        return each.unknown_since
    return each.pending_since if each.pending else each.changed_at


def _awaited(each: Expectation[Any]) -> str:
    if each.write is not None:
        awaited = "outcome" if each.outcome_unknown else "answer"
        return f"{awaited} of {verb_of(each.write)}"
    if not each.unseen:
        return ""
    event = "deletion" if each.deleted_uid else "write"
    return f"live read after {event}" if each.needs_live_read else f"cache shows {event}"


def _kept(each: Expectation[Any]) -> str:
    if each.warning:
        return f"admission: {each.warning}"
    if each.name_conflict:
        return "name is taken"
    if each.absent:
        return "looked up, not found"
    return "outside of the selection"


# Numbers of all expectations, for metrics and tests.

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
