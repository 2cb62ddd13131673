"""Expectations on the debug page, and their numbers for metrics and tests."""

from __future__ import annotations

from collections.abc import Collection
from heapq import nsmallest
from itertools import islice
from typing import Any

from msgspec import Struct

from controller.runtime.debug import LIMIT, BoundedList, ExpectationEntry, cause, listing
from controller.runtime.expectations.expectation import (
    ABSENT,
    TAKEN,
    Deleted,
    Expectation,
    Written,
)
from controller.runtime.plan import verb_of


def oldest(expectations: Collection[Expectation[Any]], now: float) -> BoundedList[ExpectationEntry]:
    """Return the oldest expectations at `now` (clock time), those that await something first."""
    found = nsmallest(
        LIMIT, expectations, key=lambda each: (each.pending_since is None, _since(each))
    )
    return listing(found, lambda each: _entry(each, now), total=len(expectations))


def _entry(each: Expectation[Any], now: float) -> ExpectationEntry:
    owners = [record.owner for record in islice(each.owners.values(), LIMIT)]
    failure = next((write.failure for write in each.unanswered if write.failure is not None), None)
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
    if each.unanswered:
        write = each.unanswered[0]
        return f"{'answer' if write.in_flight else 'outcome'} of {verb_of(write.write)}"
    if not isinstance(each.entry, Written | Deleted):
        return ""
    event = "deletion" if isinstance(each.entry, Deleted) else "write"
    return f"live read after {event}" if each.needs_live_read else f"cache shows {event}"


def _kept(each: Expectation[Any]) -> str:
    finding = next(iter(each.findings), None)
    if finding is None:
        return "outside of the selection"
    if finding is TAKEN:
        return "name is taken"
    return "looked up, not found" if finding is ABSENT else f"admission: {finding.warning}"


class ExpectationStatistics(Struct, frozen=True):
    """Numbers for metrics and tests.

    Attributes:
        pending: those of which the store has yet to show a write.
        unknown: writes of unknown outcome.
        oldest_age: seconds since the oldest pending write.
        oldest_unseen: seconds for which the store has not shown what the server answered, at most.
        live_reads: live reads so far.
    """

    owners: int
    expectations: int
    pending: int
    unknown: int
    oldest_age: float
    oldest_unseen: float
    live_reads: int


def collect(
    expectations: Collection[Expectation[Any]], now: float, owners: int, live_reads: int
) -> ExpectationStatistics:
    """Return the numbers at `now`, clock time in seconds; O(expectations)."""
    pending = [each.pending_since for each in expectations if each.pending_since is not None]
    unseen = [each.unseen_since for each in expectations if each.unseen_since is not None]
    unknown = (not write.in_flight for each in expectations for write in each.unanswered)
    return ExpectationStatistics(
        owners=owners,
        expectations=len(expectations),
        pending=len(pending),
        unknown=sum(unknown),
        oldest_age=max((now - since for since in pending), default=0.0),
        oldest_unseen=max((now - since for since in unseen), default=0.0),
        live_reads=live_reads,
    )
