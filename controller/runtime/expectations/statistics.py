"""Expectations on the debug page, and their numbers for metrics and tests."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from heapq import nsmallest
from itertools import islice
from typing import Any, Final

from controller.runtime.debug import LIMIT, BoundedList, ExpectationEntry, cause, listing
from controller.runtime.expectations.expectation import Expectation
from controller.runtime.plan import verb_of


def oldest(expectations: Collection[Expectation[Any]], now: float) -> BoundedList[ExpectationEntry]:
    """Return the oldest expectations at `now` (clock time), those that await something first."""
    found = nsmallest(
        LIMIT, expectations, key=lambda each: (each.pending_since is None, _since(each))
    )
    return listing(found, lambda each: _entry(each, now), total=len(expectations))


def _entry(each: Expectation[Any], now: float) -> ExpectationEntry:
    owners = [record.owner for record in islice(each.owners.values(), LIMIT)]
    failure = each.unknown_failure
    return ExpectationEntry(
        object=str(each.reference),
        owners=[f"{owner.controller} {owner.key}" for owner in owners],
        awaited=_awaited(each),
        kept=cause(_kept(each)) if each.pending_since is None else "",
        age=round(now - _since(each), 3),
        live_reads=each.live_reads,
        cause=cause(f"{failure.reason}: {failure.message}") if failure is not None else "",
    )


def _since(each: Expectation[Any]) -> float:
    return each.changed_at if each.pending_since is None else each.pending_since


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
    expectations: Collection[Expectation[Any]],
    now: float,
    owners: int,
    corrections: int,
    resolved_by: Mapping[str, int],
) -> ExpectationStatistics:
    """Return the numbers at `now`, clock time in seconds; O(expectations)."""
    pending = [each.pending_since for each in expectations if each.pending_since is not None]
    unseen = [each.unseen_since for each in expectations if each.unseen_since is not None]
    return ExpectationStatistics(
        owners=owners,
        expectations=len(expectations),
        pending=len(pending),
        unknown=sum(1 for each in expectations if each.outcome_unknown),
        oldest_age=max((now - since for since in pending), default=0.0),
        oldest_unseen=max((now - since for since in unseen), default=0.0),
        need_live_read=sum(1 for each in expectations if each.needs_live_read),
        corrections=corrections,
        live_reads=resolved_by.get(LIVE_READ, 0),
        resolved_by=dict(resolved_by),
    )
