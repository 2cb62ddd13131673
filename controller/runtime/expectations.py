"""Expectations: the writes of this process that its caches do not show yet.

A write is *expected* before its request is sent. After the response, the returned object or the
uid of the deleted one replaces the stored object until the store has caught up. A lost response
leaves the outcome *unknown*, never failed. `observe` reads through the overlay, so that no write is
counted twice and nothing has to wait for a cache.

The store itself satisfies an expectation: it shows the object at or past the revision of the
response, or shows it terminating, gone or replaced (EXP-22). Where the store cannot tell,
the next reconcile of the owner makes one live read (EXP-24): for an object whose revision
the store has passed without showing it, for one that left the selector without having been seen
terminating, for a change whose answer was lost, and for an expectation older than 30 seconds. No
expectation expires unchecked. Creates and deletes whose answers were lost are sent again, under the
same name and uid (EXP-32, EXP-33).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime
from functools import partial
from heapq import nsmallest
from itertools import islice
from typing import Any, TypeVar

from msgspec import Struct

from controller.apimachinery.conditions import rfc3339
from controller.apimachinery.metadata import owner_uid
from controller.kube.objects import KubeObject
from controller.kube.resources import Resource
from controller.runtime.debug import (
    LIMIT,
    BoundedList,
    ExpectationEntry,
    ExpectationsSection,
    cause,
    listing,
)
from controller.runtime.expectation import (
    ABSENT,
    TAKEN,
    Deleted,
    Expectation,
    Finding,
    ObjectReference,
    Outside,
    Written,
    is_newer,
    with_deletion,
)
from controller.runtime.overlay import Overlay, OverlayReader
from controller.runtime.plan import Change, Delete, Failure, Target, Write, verb_of
from controller.runtime.record import Owner, Record

T = TypeVar("T", bound=KubeObject)

_NOBODY = Owner("", "", "")


class ExpectationStatistics(Struct, frozen=True):
    """Numbers for metrics and tests.

    Attributes:
        pending: those of which the store has yet to show a write.
        oldest_unseen: seconds for which the store has not shown what the server answered, at most.
    """

    owners: int
    expectations: int
    pending: int
    unknown: int
    oldest_age: float
    oldest_unseen: float
    live_reads: int


class Expectations:
    """Records writes, what the store shows of them, and live reads.

    Synchronous throughout; an event costs O(1), amortised.

    Args:
        now: monotonic seconds.

    Attributes:
        reader: the caches overlaid with the expectations: what `observe` gets.
        enqueue: enqueues the key of an owner; set by the operator.
        on_rewound: called with a resource and a sign that the server went back in time; set by the
            caches.
    """

    def __init__(self, *, now: Callable[[], float], wall: Callable[[], datetime]) -> None:
        self._now = now
        self._wall = wall
        self._overlays = _Overlays(now, self.enqueue_owner)
        self._records: dict[str, Record] = {}
        self._uid_of: dict[tuple[str, str], str] = {}
        self._live_reads = 0
        self.reader = OverlayReader(self._overlays, self.record)
        self.enqueue: Callable[[Owner], None] = _ignore
        self.on_rewound: Callable[[Resource[Any], str], None] = _ignore

    def overlay(self, resource: Resource[T]) -> Overlay[T]:
        """Return the overlay of one resource, created on first use."""
        return self._overlays[resource]

    def record(self, uid: str) -> Record:
        """Return the record of the owner with that uid; one that nobody keeps if it is unknown."""
        return self._records.get(uid) or Record(_NOBODY)

    # -- events -------------------------------------------------------------------------------

    def observe_owner_change(
        self, resource: Resource[Any], old: KubeObject, new: KubeObject
    ) -> None:
        """Record that others gave an object another owner, which need not exist."""
        was, meta = old.metadata, new.metadata
        if was.owner_references == meta.owner_references and was.labels == meta.labels:
            return
        before, after = owner_uid(old.metadata), owner_uid(new.metadata)
        if before != after and after:
            reference = ObjectReference(resource, old.metadata.key)
            self.record(before).disowned[reference] = None

    def observe_delete(self, resource: Resource[Any], last: KubeObject) -> None:
        """Check the expectation of an object that the store has lost in state `last`.

        An object that was not terminating may only have left the selector: it is kept until a
        live read shows whether it still exists (EXP-24).
        """
        overlay, meta = self.overlay(resource), last.metadata
        expectation = overlay.expectations.get(meta.key)
        entry = expectation.entry if expectation is not None else None
        known = entry.obj if entry is not None else None
        owner = self._records.get(owner_uid(meta))
        is_news = known is None and not (isinstance(entry, Deleted) and entry.uid == meta.uid)
        if is_news and not meta.terminating and overlay.selective and owner is not None:
            expectation = overlay.get_or_create(meta.key, owner)
            expectation.entry = Written(last)
            expectation.touch(self._now())
            overlay.require_live_read(expectation)
        if expectation is None:
            return
        if meta.terminating and known is not None and known.metadata.uid == meta.uid:
            self._delete(expectation, meta.uid, gone=True)
        if any(each.warning for each in expectation.findings):
            overlay.require_live_read(expectation)
        overlay.update(expectation)

    # -- owners -------------------------------------------------------------------------------

    def add_owner(self, owner: Owner) -> None:
        """Add an owner before it is observed, and drop an earlier one of its name."""
        name = owner.controller, owner.key
        if self._uid_of.get(name) != owner.uid:
            self.remove_owner(*name)
            self._uid_of[name] = owner.uid
        record = self._records.get(owner.uid)
        if record is None:
            self._records[owner.uid] = Record(owner)
        else:
            record.owner = owner

    def remove_owner(self, controller: str, key: str) -> None:
        """Drop what was recorded for an owner that no longer exists."""
        uid = self._uid_of.pop((controller, key), "")
        record = self._records.pop(uid, None)
        for expectation in tuple(record.expectations.values()) if record is not None else ():
            del expectation.owners[uid]
            self._update(expectation)

    def enqueue_owner(self, expectation: Expectation[Any]) -> None:
        """Enqueue the owners of an object."""
        for record in expectation.owners.values():
            self.enqueue(record.owner)

    # -- writes -------------------------------------------------------------------------------

    def expect(self, owner: Owner, write: Write) -> None:
        """Record `write`, whose request is about to be sent."""
        expectation, record = self._for_write(owner, write.target)
        self.begin_request(expectation)
        tried_at = expectation.sent_at.object_revision
        record.sent(expectation.reference, write, tried_at, self._now())
        self._changed(expectation)

    def begin_request(self, expectation: Expectation[Any]) -> None:
        """Record that a request for this object is about to be sent."""
        reference = expectation.reference
        expectation.sent_at = self.overlay(reference.resource).state_of(reference.key)

    def confirm(
        self, owner: Owner, write: Write, obj: KubeObject, *, created: bool = False
    ) -> None:
        """Record that the server carried out a create or a change and returned `obj`.

        `created` says that this request created it, which is not so if the name existed already.
        """
        expectation, record = self._end_request(owner, write)
        self._check_time(expectation, obj, created=created)
        self.overlay(write.target.resource).set_object(expectation, obj)
        record.done(expectation.reference, write, obj, created=created)
        self._changed(expectation)

    def confirm_delete(self, owner: Owner, write: Delete, obj: KubeObject | None = None) -> None:
        """Record that the server accepted a deletion; `obj` is its response, if any."""
        expectation, record = self._end_request(owner, write)
        self._delete(expectation, write.uid, gone=False)
        if obj is not None and obj.metadata.uid == write.uid:
            record.observe_revision(write.target.resource, obj.metadata.resource_version)
            if obj.metadata.terminating:
                self.overlay(write.target.resource).set_object(expectation, obj)
        self._changed(expectation)

    def confirm_gone(self, owner: Owner, write: Change | Delete) -> None:
        """Record the response that the object does not exist, or another one with its name."""
        expectation, _ = self._end_request(owner, write)
        self._delete(expectation, write.uid, gone=True)
        self._changed(expectation)

    def mark_failed(self, owner: Owner, write: Write) -> None:
        """Drop `write`, which the server certainly did not carry out."""
        expectation, _ = self._end_request(owner, write)
        self._changed(expectation)

    def mark_unknown(self, owner: Owner, write: Write, failure: Failure | None = None) -> None:
        """Record that the response to `write` was lost, until it is repeated or read live (EXP-32).

        `failure` says how it ended; None if it was cut off.
        """
        expectation, record = self._for_write(owner, write.target)
        record.answer_lost(expectation.reference, write, failure, self._now())
        self._changed(expectation)

    def name_conflict(self, owner: Owner, write: Write) -> None:
        """Record that a create met an object of this name of another owner (EXP-33)."""
        expectation, record = self._end_request(owner, write)
        record.findings[expectation.reference] = TAKEN
        self._changed(expectation)

    def admission_mismatch(
        self, owner: Owner, write: Write, mismatch: str, *, blocking: bool
    ) -> None:
        """Record that admission changed the created object: warn, do not retry (EXP-43).

        A `blocking` mismatch forbids creates and deletes in the scope of the write.
        """
        expectation, record = self._for_write(owner, write.target)
        blocks = write.target.scope if blocking else None
        record.findings[expectation.reference] = Finding(mismatch, blocks)
        self._changed(expectation)

    def precondition_failed(self, owner: Owner, write: Write, obj: KubeObject | None) -> None:
        """Record a failed precondition; a live read found `obj`, or nothing (EXP-34)."""
        expectation, record = self._for_write(owner, write.target)
        record.end_write(expectation.reference, obj)
        expectation.touch(self._now())
        self._check_time(expectation, obj)
        self._apply_live_object(expectation, obj)

    # -- live reads ---------------------------------------------------------------------------

    def peek(self, target: Target) -> KubeObject | None:
        """Return the target as `reader` shows it, None also if it is not watched."""
        return self.overlay(target.resource).peek(target.key)

    def get(self, reference: ObjectReference) -> Expectation[Any] | None:
        """Return the expectation for an object, if there is one."""
        return self.overlay(reference.resource).expectations.get(reference.key)

    def all(self) -> list[Expectation[Any]]:
        """Return all expectations."""
        return [each for one in self._overlays.values() for each in one.expectations.values()]

    def record_lookup(self, owner: Owner, target: Target, obj: KubeObject | None) -> None:
        """Record that a lookup of the plan found `obj`, or nothing."""
        expectation, record = self._for_write(owner, target)
        record.found(expectation.reference, obj)
        if obj is None:
            record.findings[expectation.reference] = ABSENT
        expectation.touch(self._now())
        self._apply_live_object(expectation, obj)

    def expire_lookup(self, expectation: Expectation[Any]) -> bool:
        """Forget that a lookup found nothing; return whether nothing else was expected."""
        for record in expectation.owners.values():
            if record.findings.get(expectation.reference) is ABSENT:
                del record.findings[expectation.reference]
        self._update(expectation)
        return expectation.satisfied

    def record_live_read(self, expectation: Expectation[Any], obj: KubeObject | None) -> None:
        """Record that a live read of this object found `obj`, or nothing; enqueue its owners.

        Owners of an object outside of the watched selection are enqueued only if it has changed.
        The read also resolves writes of unknown outcome. What was not carried out, its owner
        repeats after its back-off.
        """
        self._live_reads += 1
        self._check_time(expectation, obj)
        expectation.live_reads += 1
        expectation.version += 1
        expectation.changed_at = self._now()
        expectation.needs_live_read = False
        before, reference = expectation.entry, expectation.reference
        for record in expectation.owners.values():
            write = record.writes.get(reference)
            if write is not None and not write.in_flight:
                record.end_write(reference, obj)
        self._apply_live_object(expectation, obj)
        if not isinstance(before, Outside) or obj is None or is_newer(obj, before.obj):
            self.enqueue_owner(expectation)

    # -- numbers ------------------------------------------------------------------------------

    def statistics(self) -> ExpectationStatistics:
        """Return the numbers for metrics and tests; O(expectations)."""
        return _collect(self.all(), self._now(), len(self._records), self._live_reads)

    def snapshot(self) -> ExpectationsSection:
        """Return the section of the debug page, the oldest unsatisfied first; O(expectations)."""
        numbers, entries = self.statistics(), _oldest(self.all(), self._now())
        return ExpectationsSection(numbers.owners, numbers.pending, numbers.unknown, entries)

    # -- inside -------------------------------------------------------------------------------

    def _for_write(self, owner: Owner, target: Target) -> tuple[Expectation[Any], Record]:
        """Return the expectation for an object and the owner's record, which is kept if known."""
        record = self._records.get(owner.uid)
        expectation = self.overlay(target.resource).get_or_create(target.key, record)
        return expectation, record or Record(owner)

    def _end_request(self, owner: Owner, write: Write) -> tuple[Expectation[Any], Record]:
        """Return the same; the outcome of the write is known."""
        expectation, record = self._for_write(owner, write.target)
        record.writes.pop(expectation.reference, None)
        return expectation, record

    def _delete(self, expectation: Expectation[Any], uid: str, *, gone: bool) -> None:
        at = rfc3339(self._wall())
        expectation.entry = with_deletion(expectation.entry, uid, at, gone=gone)

    def _changed(self, expectation: Expectation[Any]) -> None:
        """Count a change, and compare the expectation with the store."""
        expectation.touch(self._now())
        self._update(expectation)

    def _update(self, expectation: Expectation[Any]) -> None:
        self.overlay(expectation.reference.resource).update(expectation)

    def _apply_live_object(self, expectation: Expectation[Any], obj: KubeObject | None) -> None:
        overlay = self.overlay(expectation.reference.resource)
        overlay.apply_live_object(expectation, obj, rfc3339(self._wall()))

    def _check_time(
        self, expectation: Expectation[Any], obj: KubeObject | None, *, created: bool = False
    ) -> None:
        """Report a response that is older than the store was before the request."""
        if obj is not None and expectation.sent_at.is_contradicted_by(obj, new=created):
            revision, held = obj.metadata.resource_version, expectation.sent_at.revision
            sign = f"{expectation.reference} is at {revision}, the store was at {held} before"
            self.on_rewound(expectation.reference.resource, sign)


class _Overlays(dict[Resource[Any], Overlay[Any]]):
    """The overlays by resource, each made on first use: a plan reads a hundred times."""

    def __init__(
        self, now: Callable[[], float], notify: Callable[[Expectation[Any]], None]
    ) -> None:
        super().__init__()
        self._make = partial(Overlay[Any], now=now, notify=notify)

    def __missing__(self, resource: Resource[Any]) -> Overlay[Any]:
        made = self[resource] = self._make(resource)
        return made


def _ignore(*_: object) -> None:
    """Do nothing: the default for callbacks."""


# The numbers, and the entries of the debug page.


def _collect(
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


def _oldest(
    expectations: Collection[Expectation[Any]], now: float
) -> BoundedList[ExpectationEntry]:
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
