"""Expectations: the writes of this process that its caches do not show yet.

A write is *expected* before its request is sent. After the response, the returned object or the
uid of the deleted one replaces the stored object until the store has caught up. A lost response
leaves the outcome *unknown*, never failed. `observe` reads through the overlay, so that no write is
counted twice and nothing has to wait for a cache.

The store itself satisfies an expectation: it shows the object at or past the revision of the
response, or shows it terminating, gone or replaced (EXP-20 to EXP-22). Where the store cannot tell,
`ExpectationResolver` makes one live read (EXP-9, EXP-24): for an object whose revision the store
has passed without showing it, for one that left the selector without having been seen
terminating, for an expectation older than 30 seconds, and for every expectation after the server's
revisions went backwards (EXP-45). No expectation expires unchecked.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from controller.apimachinery.ownership import is_owned_by
from controller.apimachinery.timestamps import rfc3339
from controller.kube.objects import KubeObject
from controller.runtime.expectations.create_errors import CreateErrors
from controller.runtime.expectations.overlay import (
    Expectation,
    ObjectReference,
    OverlayIndex,
    effective,
    is_newer,
)
from controller.runtime.expectations.owners import OwnerIndex
from controller.runtime.expectations.reader import OverlayReader
from controller.runtime.reconcile.plan import Create
from informers import is_comparable, is_older

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from controller.kube.resources import Resource
    from controller.runtime.expectations.owners import Owner
    from controller.runtime.reconcile.kind import CreateError, LogText
    from controller.runtime.reconcile.plan import Failure, LiveList, LogTail, Target, Write
    from informers import Lister, Undecodable

T = TypeVar("T", bound=KubeObject)

_Order: TypeAlias = tuple[int, str]
"""A revision as length and digits, which sort like the number. A number may have more digits than
Python converts."""

FIRST_LIVE_READ = 30.0
"""Seconds after which an expectation that the store has not satisfied is read live."""

LIVE_ONLY_INTERVAL = 30.0
"""Seconds between two live reads of an object that is not in the watched selection any more."""

UNKNOWN_OVERDUE = 5.0
"""Seconds after which a write of unknown outcome is reported as a failure."""

MAX_LIVE_READ_INTERVAL = 480.0
"""Seconds between two live reads of one expectation at most; the interval doubles each time."""


@dataclass(frozen=True, slots=True)
class ExpectationStatistics:
    """Numbers for metrics and tests."""

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


class Expectations:
    """Records writes and finds out when the store satisfies them.

    Synchronous throughout; an event costs O(1), amortised.

    Args:
        now: monotonic seconds.
        wall: the time of day, for deletion timestamps.

    Attributes:
        reader: the caches overlaid with the expectations: what `observe` gets.
        request_live_read: schedules a live read after a delay in seconds; set by the resolver.
        enqueue: enqueues the key of an owner; set by the operator.
        retry: does so unless the key is in back-off; set by the operator, else `enqueue` is used.
        on_rewound: called with a revision at which the server is now and a sign that it went back
            in time; set by the caches.
    """

    def __init__(self, *, now: Callable[[], float], wall: Callable[[], datetime]) -> None:
        self._now = now
        self._wall = wall
        self._overlays = OverlayIndex()
        self._owners = OwnerIndex()
        self._create_errors = CreateErrors(self._owners)
        self.reader = OverlayReader(self._overlays, self._owners, self._create_errors)
        self._waiting: dict[tuple[Resource[Any], str], list[tuple[_Order, str]]] = {}
        self._live_reads = 0
        self._resolved_by: dict[str, int] = {}
        self.request_live_read: Callable[[ObjectReference, float], None] = (
            lambda _reference, _delay: None
        )
        self.enqueue: Callable[[Owner], None] = lambda _owner: None
        self.retry: Callable[[Owner], None] | None = None
        self.on_rewound: Callable[[str, str], None] = lambda _revision, _sign: None

    # -- caches -------------------------------------------------------------------------------

    def add_cache(
        self,
        resource: Resource[T],
        namespace: str,
        cache: Lister[T],
        indexes: Mapping[str, Callable[[T], Sequence[str]]],
        *,
        selective: bool = False,
        quarantined: Mapping[str, Undecodable] = MappingProxyType({}),
    ) -> None:
        """Read `resource` in `namespace` (empty: everywhere) from `cache`.

        `selective` says that a label selector filters it, so that an object may leave it without
        being deleted; `quarantined` holds the objects that do not fit their type, by key.
        """
        overlay = self._overlays.get(resource)
        overlay.add_cache(namespace, cache, indexes, quarantined)
        overlay.selective = overlay.selective or selective

    def observe_revision(self, resource: Resource[Any], namespace: str, revision: str) -> None:
        """The store of this scope has reached `revision`: check what was expected by then."""
        heap = self._waiting.get((resource, namespace))
        order = _order(revision)
        if not heap or order is None:
            return
        overlay = self._overlays.get(resource)
        while heap and heap[0][0] <= order:
            _, key = heapq.heappop(heap)
            expectation = overlay.get_expectation(key)
            if expectation is not None:
                self._update(expectation)

    def observe_change(self, resource: Resource[Any], key: str) -> None:
        """The store shows a new state of this object, which may satisfy its expectation."""
        expectation = self._overlays.get(resource).get_expectation(key)
        if expectation is not None:
            self._update(expectation)

    def observe_delete(self, resource: Resource[Any], last: KubeObject) -> None:
        """The store does not show this object any more; `last` is the last state that it showed.

        An object that was not terminating may only have left the selector: it is kept until a
        live read shows whether it still exists (EXP-24).
        """
        reference = ObjectReference(resource, last.metadata.key)
        expectation = self.get(reference)
        uid, terminating = last.metadata.uid, last.metadata.terminating
        known = expectation is not None and (
            expectation.obj is not None or expectation.deleted_uid == uid
        )
        if not known and not terminating and self._overlays.get(resource).selective:
            expectation = self._retain(reference, last) or expectation
        if expectation is None:
            return
        if terminating and expectation.obj is not None and expectation.obj.metadata.uid == uid:
            self._mark_deleted(expectation, uid, gone=True)
        if expectation.warning:
            self._require_live_read(expectation)
        self._update(expectation)

    def observe_reset(self, resource: Resource[Any]) -> None:
        """The server's revisions went backwards: read every expected object live (EXP-45)."""
        overlay = self._overlays.get(resource)
        overlay.epoch += 1
        for state in self._owners.all():
            state.revisions.pop(resource, None)
        for expectation in list(overlay.expectations()):
            if expectation.gone:
                expectation.obj, expectation.deleted_uid, expectation.gone = None, "", False
                self._update(expectation)
            if not expectation.satisfied:
                expectation.before_reset = True
                self._require_live_read(expectation)

    # -- owners -------------------------------------------------------------------------------

    def add_owner(self, owner: Owner) -> None:
        """Add an owner before it is observed, and drop an earlier one of its name (EXP-29)."""
        self._release(self._owners.add(owner))

    def remove_owner(self, controller: str, key: str) -> None:
        """The owner no longer exists: drop what was recorded for it (EXP-8)."""
        self._release(self._owners.remove(controller, key))

    def _release(self, references: Iterable[ObjectReference]) -> None:
        for reference in references:
            expectation = self.get(reference)
            if expectation is not None:
                expectation.owners = {
                    uid: None for uid in expectation.owners if self._owners.get(uid)
                }
                self._update(expectation)

    # -- writes -------------------------------------------------------------------------------

    def expect(self, owner: Owner, write: Write) -> None:
        """A request for `write` is about to be sent."""
        expectation = self._for_write(owner, write.target)
        expectation.write, expectation.outcome_unknown = write, False
        self.begin_request(expectation)
        state = self._owners.get(owner.uid)
        if state is not None and isinstance(write, Create):
            state.will_create(write.target.resource)
        self._touch(expectation)
        self._update(expectation)

    def begin_request(self, expectation: Expectation[Any]) -> None:
        """A request for this object is about to be sent."""
        reference = expectation.reference
        expectation.sent_at = self._overlays.get(reference.resource).state_of(reference.key)

    def confirm(
        self, owner: Owner, write: Write, obj: KubeObject, *, created: bool = False
    ) -> None:
        """The server carried out a create or a change and returned `obj`.

        `created` says that this request created it, which is not so if the name existed already.
        """
        expectation = self._end_request(owner, write)
        self._check_time(expectation, obj, created=created)
        self._set_object(expectation, obj)
        self._record_member(owner.uid, write)
        self._create_errors.forget(expectation.reference)
        expectation.name_conflict = expectation.absent = False
        self._update(expectation)

    def confirm_delete(
        self, owner: Owner, write: Write, uid: str, obj: KubeObject | None = None
    ) -> None:
        """The server accepted the deletion of `uid`; `obj` is the response's body, if any."""
        expectation = self._end_request(owner, write)
        self._mark_deleted(expectation, uid, gone=False)
        if obj is not None and obj.metadata.uid == uid:
            self._observe_owner_revision(expectation, obj)
            if obj.metadata.terminating:
                self._set_object(expectation, obj)
        self._update(expectation)

    def confirm_gone(self, owner: Owner, write: Write, uid: str) -> None:
        """The server said that the object with `uid` does not exist (EXP-35, EXP-36)."""
        expectation = self._end_request(owner, write)
        self._mark_deleted(expectation, uid, gone=True)
        self._update(expectation)

    def mark_failed(self, owner: Owner, write: Write) -> None:
        """The server certainly did not carry out `write`: nothing is expected of it (EXP-41)."""
        self._update(self._end_request(owner, write))

    def record_create_error(self, owner: Owner, write: Create, error: CreateError) -> None:
        """The server rejected the create; planners read the reason from `create_error`."""
        reference = ObjectReference(write.target.resource, write.target.key)
        self._create_errors.add(owner, reference, error)

    def mark_unknown(self, owner: Owner, write: Write, failure: Failure | None = None) -> None:
        """The response to `write` was lost: unknown until repeated or read live (EXP-32).

        `failure` says how it ended; None if it was cut off.
        """
        expectation = self._for_write(owner, write.target)
        expectation.write, expectation.outcome_unknown = write, True
        expectation.unknown_failure = failure
        if expectation.unknown_since is None:
            expectation.unknown_since = self._now()
        self._touch(expectation)
        self.request_live_read(expectation.reference, 0.0)
        self._update(expectation)

    def name_conflict(self, owner: Owner, write: Write) -> None:
        """A create met an object of this name that belongs to another owner (EXP-33)."""
        expectation = self._end_request(owner, write)
        expectation.name_conflict = True
        self._update(expectation)

    def admission_mismatch(
        self, owner: Owner, write: Write, mismatch: str, *, blocking: bool
    ) -> None:
        """Admission changed the created object: warn, and do not try again (EXP-43).

        A `blocking` mismatch forbids creates and deletes in the scope of the write.
        """
        expectation = self._for_write(owner, write.target)
        expectation.warning, expectation.blocking = mismatch, blocking
        self._touch(expectation)
        self._update(expectation)

    def record_lookup(self, owner: Owner, target: Target, obj: KubeObject | None) -> None:
        """A lookup of the plan found `obj`, or nothing."""
        expectation = self._for_write(owner, target)
        expectation.absent = obj is None
        self._touch(expectation)
        self._apply_live_object(expectation, obj)

    def record_list(self, owner: Owner, lookup: LiveList) -> None:
        """A live list of the plan succeeded, and every object that it returned was looked up."""
        state = self._owners.get(owner.uid)
        if state is not None:
            state.lists.add(lookup)

    def record_log_tail(self, owner: Owner, lookup: LogTail, text: LogText) -> None:
        """The tail of a log was read, or is unavailable."""
        state = self._owners.get(owner.uid)
        if state is not None:
            state.keep_log(lookup, text)

    def precondition_failed(self, owner: Owner, write: Write, obj: KubeObject | None) -> None:
        """A precondition of `write` failed; a live read found `obj`, or nothing (EXP-34)."""
        expectation = self._end_request(owner, write)
        if obj is not None:
            self._check_time(expectation, obj)
        self._apply_live_object(expectation, obj)

    # -- live reads ---------------------------------------------------------------------------

    def get(self, reference: ObjectReference) -> Expectation[Any] | None:
        """The expectation for an object, if there is one."""
        return self._overlays.get_expectation(reference)

    def peek(self, target: Target) -> KubeObject | None:
        """The target as `reader` shows it, None also if it is not watched."""
        overlay = self._overlays.get(target.resource)
        return overlay.get(target.key) if overlay.covers(target.namespace) else None

    def writer_of(self, expectation: Expectation[Any]) -> Owner | None:
        """The owner of the last write, None if it no longer exists."""
        state = self._owners.get(expectation.writer)
        return next(iter(state.owners.values()), None) if state is not None else None

    def next_live_read(self, expectation: Expectation[Any]) -> float:
        """Seconds until this object must be read live; zero or less means now."""
        if expectation.needs_live_read:
            return 0.0
        if expectation.live_only:
            return expectation.changed_at + LIVE_ONLY_INTERVAL - self._now()
        interval = min(FIRST_LIVE_READ * 2**expectation.live_reads, MAX_LIVE_READ_INTERVAL)
        return expectation.changed_at + interval - self._now()

    def enqueue_owners(self, expectation: Expectation[Any], *, retry: bool = False) -> None:
        """Enqueue the owners of an object; for a `retry`, those in back-off wait for its end."""
        for state in self._owners.find(expectation.owners):
            for owner in state.owners.values():
                ((retry and self.retry) or self.enqueue)(owner)

    def overdue_failures(self, owner_uid: str) -> tuple[Failure, ...]:
        """Writes of this owner whose outcome has been unknown for longer than a moment."""
        state = self._owners.get(owner_uid)
        found = (self.get(reference) for reference in (state.expectations if state else ()))
        return tuple(
            replace(failure, overdue=True)
            for expectation in found
            if expectation is not None
            and expectation.writer == owner_uid
            and expectation.unknown_since is not None
            and self._now() - expectation.unknown_since >= UNKNOWN_OVERDUE
            and (failure := expectation.unknown_failure) is not None
        )

    def expire_lookup(self, expectation: Expectation[Any]) -> bool:
        """Forget that a lookup found nothing; whether nothing else was expected."""
        expectation.absent = False
        self._update(expectation)
        return expectation.satisfied

    def record_live_read(self, expectation: Expectation[Any], obj: KubeObject | None) -> None:
        """A live read of this object found `obj`, or nothing. Enqueues its owners.

        Those of an object outside of the watched selection are enqueued only if it has changed.
        It resolves a write of unknown outcome as well. If that write was not carried out, nothing
        is new: the owner repeats it after its back-off.
        """
        self._live_reads += 1
        self._count("live_read")
        if obj is not None:
            self._check_time(expectation, obj)
        expectation.live_reads += 1
        expectation.version += 1
        expectation.changed_at = self._now()
        expectation.needs_live_read = False
        before = expectation.obj if expectation.live_only else None
        shown = None if expectation.unknown_since is None else self._shown_revision(expectation)
        expectation.end_write()
        self._apply_live_object(expectation, obj)
        nothing_new = shown == (obj.metadata.resource_version if obj is not None else "")
        if before is None or obj is None or is_newer(obj, before):
            self.enqueue_owners(expectation, retry=nothing_new)

    # -- numbers ------------------------------------------------------------------------------

    def statistics(self) -> ExpectationStatistics:
        """Numbers for metrics and tests; O(expectations)."""
        overlays = self._overlays.all()
        expectations = [
            expectation for overlay in overlays for expectation in overlay.expectations()
        ]
        pending = [e for e in expectations if e.pending]
        now = self._now()
        return ExpectationStatistics(
            owners=len(self._owners.all()),
            expectations=len(expectations),
            pending=len(pending),
            unknown=sum(1 for e in expectations if e.outcome_unknown),
            oldest_age=max((now - e.pending_since for e in pending), default=0.0),
            oldest_unseen=max(
                (now - e.unseen_since for e in expectations if e.unseen_since is not None),
                default=0.0,
            ),
            need_live_read=sum(1 for e in expectations if e.needs_live_read),
            corrections=sum(overlay.corrections for overlay in overlays),
            live_reads=self._live_reads,
            resolved_by=dict(self._resolved_by),
        )

    # -- inside -------------------------------------------------------------------------------

    def _for_write(self, owner: Owner, target: Target) -> Expectation[Any]:
        expectation = self._get_or_create(ObjectReference(target.resource, target.key), owner.uid)
        expectation.writer, expectation.scope = owner.uid, target.scope
        return expectation

    def _get_or_create(self, reference: ObjectReference, owner_uid: str) -> Expectation[Any]:
        """The expectation for an object, new if there was none, with this owner added."""
        expectation = self.get(reference) or Expectation(reference)
        if not expectation.pending:
            expectation.pending_since = self._now()
        state = self._owners.get(owner_uid)
        if state is not None:
            state.expectations[reference] = None
            expectation.owners[owner_uid] = None
        return expectation

    def _retain(self, reference: ObjectReference, last: KubeObject) -> Expectation[Any] | None:
        """Keep an object that may only have left the selector, until it has been read live."""
        controller = last.metadata.controller
        if controller is None or self._owners.get(controller.uid) is None:
            return None
        expectation = self._get_or_create(reference, controller.uid)
        expectation.obj = last
        self._touch(expectation)
        self._require_live_read(expectation)
        return expectation

    def _end_request(self, owner: Owner, write: Write) -> Expectation[Any]:
        expectation = self._for_write(owner, write.target)
        expectation.end_write()
        self._touch(expectation)
        return expectation

    def _check_time(
        self, expectation: Expectation[Any], obj: KubeObject, *, created: bool = False
    ) -> None:
        """Report a response that is older than what the store showed before the request."""
        if expectation.sent_at.is_contradicted_by(obj, new=created):
            revision, held = obj.metadata.resource_version, expectation.sent_at.revision
            sign = f"{expectation.reference} is at {revision}, the store was at {held} before"
            self.on_rewound(revision, sign)

    def _touch(self, expectation: Expectation[Any]) -> None:
        expectation.version += 1
        expectation.changed_at = self._now()
        expectation.live_reads = 0
        self.request_live_read(expectation.reference, FIRST_LIVE_READ)

    def _require_live_read(self, expectation: Expectation[Any]) -> None:
        if not expectation.needs_live_read:
            expectation.needs_live_read = True
            self.request_live_read(expectation.reference, 0.0)

    def _set_object(self, expectation: Expectation[Any], obj: KubeObject) -> None:
        """Show `obj` in place of the stored object until the store has caught up."""
        self._observe_owner_revision(expectation, obj)
        known, expectation.before_reset = not expectation.before_reset, False
        if known and expectation.obj is not None and is_newer(expectation.obj, obj):
            return
        expectation.obj = obj
        order = _order(obj.metadata.resource_version)
        if order is not None:
            reference = expectation.reference
            scope = self._overlays.get(reference.resource).scope_of(reference.namespace)
            heap = self._waiting.setdefault((reference.resource, scope), [])
            heapq.heappush(heap, (order, reference.key))

    def _shown_revision(self, expectation: Expectation[Any]) -> str:
        """Revision of the object as `reader` shows it, empty if it shows none."""
        reference = expectation.reference
        overlay = self._overlays.get(reference.resource)
        shown = overlay.get(reference.key) if overlay.covers(reference.namespace) else None
        return shown.metadata.resource_version if shown is not None else ""

    def _observe_owner_revision(self, expectation: Expectation[Any], obj: KubeObject) -> None:
        for state in self._owners.find(expectation.owners):
            state.observe_revision(expectation.reference.resource, obj.metadata.resource_version)

    def _mark_deleted(self, expectation: Expectation[Any], uid: str, *, gone: bool) -> None:
        expectation.deleted_uid = uid
        expectation.deleted_at = rfc3339(self._wall())
        expectation.gone = gone
        if gone:
            # `obj` stays, because a store that lags may still show the deleted object.
            expectation.live_only = False

    def _apply_live_object(self, expectation: Expectation[Any], obj: KubeObject | None) -> None:
        """Apply the result of a live read to the expectation."""
        overlay = self._overlays.get(expectation.reference.resource)
        if expectation.before_reset:
            expectation.obj, expectation.before_reset = None, False
        if obj is None:
            expectation.warning, expectation.blocking, expectation.name_conflict = "", False, False
            covered = overlay.covers(expectation.reference.namespace)
            shown = (
                effective(overlay.stored(expectation.reference), expectation) if covered else None
            )
            if shown is not None:
                self._mark_deleted(expectation, shown.metadata.uid, gone=True)
        else:
            if obj.metadata.uid != expectation.deleted_uid or not obj.metadata.terminating:
                expectation.deleted_uid, expectation.gone = "", False
            owned = any(is_owned_by(obj.metadata, uid) for uid in expectation.owners)
            expectation.name_conflict = expectation.name_conflict and not owned
            expectation.obj = None  # the live read wins, also after the revisions went backwards
            self._set_object(expectation, obj)
            expectation.live_only = self._passed_unseen(expectation, obj)
        self._update(expectation)

    def _passed_unseen(self, expectation: Expectation[Any], obj: KubeObject) -> bool:
        """Whether the store has passed `obj`'s revision without showing any such object."""
        overlay = self._overlays.get(expectation.reference.resource)
        if not overlay.covers(expectation.reference.namespace):
            return False
        revision = overlay.cache_of(expectation.reference.namespace).resource_version
        passed = bool(revision) and not is_older(revision, obj.metadata.resource_version)
        return passed and overlay.stored(expectation.reference) is None

    def _update(self, expectation: Expectation[Any]) -> None:
        """Compare a changed expectation with the store, and drop it if it is satisfied."""
        overlay = self._overlays.get(expectation.reference.resource)
        if overlay.covers(expectation.reference.namespace):
            self._compare_with_store(expectation, overlay.stored(expectation.reference))
        else:
            expectation.obj, expectation.deleted_uid = None, ""
        if not expectation.unseen:
            expectation.unseen_since = None
        elif expectation.unseen_since is None:
            expectation.unseen_since = self._now()
        if expectation.owners and not expectation.satisfied:
            overlay.put(expectation)
            return
        overlay.drop(expectation.reference.key)
        for state in self._owners.find(expectation.owners):
            state.expectations.pop(expectation.reference, None)

    def _compare_with_store(self, expectation: Expectation[Any], stored: KubeObject | None) -> None:
        """Drop what the store shows by now; require a live read where it cannot tell (EXP-22)."""
        if expectation.outcome_unknown and _store_shows_create(expectation, stored):
            self._record_member(expectation.writer, expectation.write)
            expectation.end_write()
            self._count("object")
            self.enqueue_owners(expectation)
        obj = expectation.obj
        if obj is not None:
            if stored is not None and not is_newer(obj, stored):
                expectation.obj, expectation.live_only, expectation.needs_live_read = (
                    None,
                    False,
                    False,
                )
                self._count("object")
            elif not expectation.live_only and self._passed_unseen(expectation, obj):
                if obj.metadata.uid == expectation.deleted_uid:
                    expectation.obj = None
                    self._count("revision")
                else:
                    self._require_live_read(expectation)
        if expectation.deleted_uid and expectation.obj is None:
            if stored is None or stored.metadata.uid != expectation.deleted_uid:
                expectation.deleted_uid, expectation.gone = "", False
                self._count("uid")
            elif stored.metadata.terminating and not expectation.gone:
                expectation.deleted_uid = ""
                self._count("uid")

    def _record_member(self, owner_uid: str, write: Write | None) -> None:
        state = self._owners.get(owner_uid)
        if state is not None and isinstance(write, Create) and write.member is not None:
            state.record_member(write.member)

    def _count(self, by: str) -> None:
        self._resolved_by[by] = self._resolved_by.get(by, 0) + 1


def _store_shows_create(expectation: Expectation[Any], stored: KubeObject | None) -> bool:
    """Whether the store shows the object of a create whose response was lost."""
    shown = effective(stored, expectation)
    return (
        isinstance(expectation.write, Create)
        and shown is not None
        and is_owned_by(shown.metadata, expectation.writer)
    )


def _order(revision: str) -> _Order | None:
    """The place of the revision, None if it is opaque (then only live reads resolve)."""
    return (len(revision), revision) if is_comparable(revision) else None
