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

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from controller.apimachinery.ownership import owner_uid, requested_owner
from controller.kube.objects import KubeObject
from controller.runtime.expectations.overlay import ObjectReference, OverlayIndex, is_newer
from controller.runtime.expectations.owners import OwnerIndex, is_repetition, questions
from controller.runtime.expectations.reader import (
    LIVE_READ,
    CreateErrors,
    OverlayReader,
    collect,
    oldest,
)
from controller.runtime.expectations.tracker import ExpectationTracker
from controller.runtime.plan import Create, Delete

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from controller.kube.resources import Resource
    from controller.runtime.debug import BoundedList, ExpectationEntry
    from controller.runtime.expectations.overlay import Expectation
    from controller.runtime.expectations.owners import Owner, Questions
    from controller.runtime.expectations.reader import ExpectationStatistics
    from controller.runtime.kind import CreateError, FailedCreate, LogText
    from controller.runtime.plan import Failure, LiveList, LogTail, Target, Write
    from informers import Lister, Undecodable

T = TypeVar("T", bound=KubeObject)

UNKNOWN_OVERDUE = 5.0
"""Seconds after its request at which a write of unknown outcome is reported as a failure."""


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
        self._overlays = OverlayIndex()
        self._owners = OwnerIndex()
        self._create_errors = CreateErrors(self._owners)
        self.reader = OverlayReader(self._overlays, self._owners, self._create_errors)
        self._tracker = ExpectationTracker(
            self._overlays, self._owners, now=now, wall=wall, notify=self.enqueue_owners
        )
        self.enqueue: Callable[[Owner], None] = _ignore
        self.on_rewound: Callable[[Resource[Any], str], None] = _ignore

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

    def remove_caches(self, resource: Resource[Any]) -> None:
        """Forget a resource that the server no longer has, with all its expectations."""
        overlay = self._overlays.get(resource)
        overlay.remove_caches()
        for expectation in list(overlay.expectations.values()):
            self._tracker.forget(expectation)

    def observe_revision(self, resource: Resource[Any], namespace: str, revision: str) -> None:
        """Check what was expected by `revision`, which the store of this scope has reached."""
        self._tracker.observe_revision(resource, namespace, revision)

    def observe_change(self, resource: Resource[Any], key: str) -> None:
        """Check whether an object's new state in the store satisfies its expectation."""
        expectation = self._overlays.get(resource).expectations.get(key)
        if expectation is not None:
            self._tracker.update(expectation)

    def observe_owner_change(
        self, resource: Resource[Any], old: KubeObject, new: KubeObject
    ) -> None:
        """Record that others gave an object another owner, which need not exist."""
        before, after = owner_uid(old.metadata), owner_uid(new.metadata)
        if before != after and after and (state := self._owners.get(before)) is not None:
            state.disown(ObjectReference(resource, old.metadata.key))

    def observe_delete(self, resource: Resource[Any], last: KubeObject) -> None:
        """Check the expectation of an object that the store has lost in state `last`.

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
            self._tracker.mark_deleted(expectation, uid, gone=True)
        if expectation.warning:
            self._tracker.require_live_read(expectation)
        self._tracker.update(expectation)

    # -- owners -------------------------------------------------------------------------------

    def add_owner(self, owner: Owner) -> None:
        """Add an owner before it is observed, and drop an earlier one of its name."""
        self._tracker.release(self._owners.add(owner))

    def remove_owner(self, controller: str, key: str) -> None:
        """Drop what was recorded for an owner that no longer exists."""
        self._tracker.release(self._owners.remove(controller, key))

    def remember(self, owner_uid: str, memory: Any) -> None:
        """Store the memory that the next plan of this owner reads."""
        self._owners.state(owner_uid).remember(memory)

    # -- writes -------------------------------------------------------------------------------

    def expect(self, owner: Owner, write: Write) -> None:
        """Record `write`, whose request is about to be sent."""
        expectation = self._for_write(owner, write.target)
        expectation.write = write
        expectation.outcome_unknown = expectation.presumed_failed = False
        self.begin_request(expectation)
        expectation.asked_at = self._now()
        if expectation.unknown_since is None:
            expectation.generation = owner.generation
        expectation.tried_at = expectation.sent_at.object_revision
        if isinstance(write, Create):
            self._owners.state(owner.uid).will_create(write.target.resource)
        self._tracker.touch(expectation)
        self._tracker.update(expectation)

    def begin_request(self, expectation: Expectation[Any]) -> None:
        """Record that a request for this object is about to be sent."""
        reference = expectation.reference
        expectation.sent_at = self._overlays.get(reference.resource).state_of(reference.key)

    def confirm(
        self, owner: Owner, write: Write, obj: KubeObject, *, created: bool = False
    ) -> None:
        """Record that the server carried out a create or a change and returned `obj`.

        `created` says that this request created it, which is not so if the name existed already.
        """
        expectation = self._end_request(owner, write)
        self._check_time(expectation, obj, created=created)
        self._tracker.set_object(expectation, obj)
        self._tracker.record_member(owner.uid, write)
        state = self._owners.state(owner.uid)
        state.refuted.pop(expectation.reference, None)
        if created:
            state.record_created(write.target.resource, obj)
            state.disowned.pop(expectation.reference, None)
            if _has_other_owner(write, obj):
                state.disown(expectation.reference)
        self._create_errors.forget(expectation.reference)
        expectation.name_conflict = expectation.absent = False
        self._tracker.update(expectation)

    def confirm_delete(
        self, owner: Owner, write: Write, uid: str, obj: KubeObject | None = None
    ) -> None:
        """Record that the server accepted the deletion of `uid`; `obj` is its response, if any."""
        expectation = self._end_request(owner, write)
        self._tracker.mark_deleted(expectation, uid, gone=False)
        if obj is not None and obj.metadata.uid == uid:
            self._tracker.observe_owner_revision(expectation, obj)
            if obj.metadata.terminating:
                self._tracker.set_object(expectation, obj)
        self._tracker.update(expectation)

    def confirm_gone(self, owner: Owner, write: Write, uid: str) -> None:
        """Record the response that the object with `uid` does not exist."""
        expectation = self._end_request(owner, write)
        self._tracker.mark_deleted(expectation, uid, gone=True)
        self._tracker.update(expectation)

    def mark_failed(self, owner: Owner, write: Write) -> None:
        """Drop `write`, which the server certainly did not carry out."""
        self._tracker.update(self._end_request(owner, write))

    def record_create_error(self, owner: Owner, write: Create, error: CreateError) -> None:
        """Record a rejected create; planners read the reason from `create_error`."""
        reference = ObjectReference(write.target.resource, write.target.key)
        self._create_errors.add(owner, reference, error)

    def mark_unknown(self, owner: Owner, write: Write, failure: Failure | None = None) -> None:
        """Record that the response to `write` was lost, until it is repeated or read live (EXP-32).

        A change that was refuted before is presumed to have failed, as long as the store shows the
        object at the same revision: it is read live only if its owner does not repeat it.
        `failure` says how it ended; None if it was cut off.
        """
        expectation = self._for_write(owner, write.target)
        expectation.write, expectation.outcome_unknown = write, True
        expectation.unknown_failure = failure
        if expectation.unknown_since is None:
            expectation.unknown_since = min(expectation.asked_at, self._now())
        expectation.presumed_failed = failure is not None and self.is_refuted(owner, write)
        self._tracker.touch(expectation)
        self._tracker.update(expectation)

    def is_repeated(self, owner: Owner, write: Write) -> bool:
        """Return whether this write is sent again anyway, because its outcome is unknown."""
        expectation = self.get(ObjectReference(write.target.resource, write.target.key))
        return expectation is not None and is_repetition(owner, write, expectation)

    def is_refuted(self, owner: Owner, write: Write) -> bool:
        """Return whether a live read after such a change found the store's state."""
        reference = ObjectReference(write.target.resource, write.target.key)
        expectation = self.get(reference)
        if expectation is None or not _is_change(write):
            return False
        return self._owners.state(owner.uid).refuted.get(reference) == expectation.tried_at

    def is_disowned(self, owner: Owner, write: Write) -> bool:
        """Return whether others gave the last object that was created so another owner."""
        reference = ObjectReference(write.target.resource, write.target.key)
        disowned = self._owners.state(owner.uid).disowned
        return isinstance(write, Create) and reference in disowned

    def name_conflict(self, owner: Owner, write: Write) -> None:
        """Record that a create met an object of this name of another owner (EXP-33)."""
        expectation = self._end_request(owner, write)
        expectation.name_conflict = True
        self._tracker.update(expectation)

    def admission_mismatch(
        self, owner: Owner, write: Write, mismatch: str, *, blocking: bool
    ) -> None:
        """Record that admission changed the created object: warn, do not retry (EXP-43).

        A `blocking` mismatch forbids creates and deletes in the scope of the write.
        """
        expectation = self._for_write(owner, write.target)
        expectation.warning, expectation.blocking = mismatch, blocking
        self._tracker.touch(expectation)
        self._tracker.update(expectation)

    def record_lookup(self, owner: Owner, target: Target, obj: KubeObject | None) -> None:
        """Record that a lookup of the plan found `obj`, or nothing."""
        expectation = self._for_write(owner, target)
        expectation.absent = obj is None
        self._tracker.touch(expectation)
        self._tracker.apply_live_object(expectation, obj)

    def record_list(self, owner: Owner, lookup: LiveList) -> None:
        """Record a live list of the plan; every object that it returned was looked up."""
        self._owners.state(owner.uid).lists.add(lookup)

    def record_log_tail(self, owner: Owner, lookup: LogTail, text: LogText) -> None:
        """Record the tail of a log, or that it is unavailable."""
        self._owners.state(owner.uid).keep_log(lookup, text)

    def record_failed_create(self, owner: Owner, uid: str, found: FailedCreate) -> None:
        """Record what the events of the object with this uid say."""
        self._owners.state(owner.uid).keep_failed_create(uid, found)

    def precondition_failed(self, owner: Owner, write: Write, obj: KubeObject | None) -> None:
        """Record a failed precondition; a live read found `obj`, or nothing (EXP-34)."""
        self._refute(self._for_write(owner, write.target), obj)
        expectation = self._end_request(owner, write)
        if obj is not None:
            self._check_time(expectation, obj)
        self._tracker.apply_live_object(expectation, obj)

    # -- live reads ---------------------------------------------------------------------------

    def get(self, reference: ObjectReference) -> Expectation[Any] | None:
        """Return the expectation for an object, if there is one."""
        return self._overlays.get_expectation(reference)

    def peek(self, target: Target) -> KubeObject | None:
        """Return the target as `reader` shows it, None also if it is not watched."""
        overlay = self._overlays.get(target.resource)
        return overlay.get(target.key) if overlay.covers(target.namespace) else None

    def questions(self, owner: Owner) -> Questions:
        """Return what this owner's next reconcile must find out; O(its expectations)."""
        found = [self.get(each) for each in self._owners.state(owner.uid).expectations]
        asked = (each for each in found if each and self._asked_by(each) == owner.uid)
        return questions(owner, asked, self.next_live_read)

    def _asked_by(self, expectation: Expectation[Any]) -> str:
        """Return the uid of the owner that finds out about it: who wrote last, if it exists."""
        if self._owners.get(expectation.writer) is not None:
            return expectation.writer
        return next(iter(expectation.owners), "")

    def next_live_read(self, expectation: Expectation[Any]) -> float:
        """Return the seconds until this object must be read live; zero or less means now."""
        return self._tracker.next_live_read(expectation)

    def enqueue_owners(self, expectation: Expectation[Any]) -> None:
        """Enqueue the owners of an object."""
        for state in self._owners.find(expectation.owners):
            for owner in state.owners.values():
                self.enqueue(owner)

    def overdue_failures(self, owner_uid: str) -> tuple[Failure, ...]:
        """Return this owner's writes whose outcome has been unknown for some time."""
        found = map(self.get, self._owners.state(owner_uid).expectations)
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
        """Forget that a lookup found nothing; return whether nothing else was expected."""
        expectation.absent = False
        self._tracker.update(expectation)
        return expectation.satisfied

    def record_live_read(self, expectation: Expectation[Any], obj: KubeObject | None) -> None:
        """Record that a live read of this object found `obj`, or nothing; enqueue its owners.

        Owners of an object outside of the watched selection are enqueued only if it has changed.
        The read also resolves a write of unknown outcome. If that write was not carried out, the
        owner repeats it after its back-off.
        """
        self._tracker.count(LIVE_READ)
        if obj is not None:
            self._check_time(expectation, obj)
        expectation.live_reads += 1
        expectation.version += 1
        expectation.changed_at = self._now()
        expectation.needs_live_read = False
        before = expectation.obj if expectation.live_only else None
        self._refute(expectation, obj)
        expectation.end_write()
        self._tracker.apply_live_object(expectation, obj)
        if before is None or obj is None or is_newer(obj, before):
            self.enqueue_owners(expectation)

    # -- numbers ------------------------------------------------------------------------------

    def statistics(self) -> ExpectationStatistics:
        """Return the numbers for metrics and tests; O(expectations)."""
        return collect(self._overlays, self._owners, self._tracker.resolved_by, self._now())

    def snapshot(self) -> BoundedList[ExpectationEntry]:
        """Return the entries of the debug page, the oldest unsatisfied first; O(expectations)."""
        found = [each for overlay in self._overlays.all() for each in overlay.expectations.values()]
        return oldest(found, self._owners, self._now())

    # -- inside -------------------------------------------------------------------------------

    def _for_write(self, owner: Owner, target: Target) -> Expectation[Any]:
        expectation = self._tracker.get_or_create(
            ObjectReference(target.resource, target.key), owner.uid
        )
        expectation.writer, expectation.scope = owner.uid, target.scope
        return expectation

    def _retain(self, reference: ObjectReference, last: KubeObject) -> Expectation[Any] | None:
        """Keep an object that may only have left the selector, until it has been read live."""
        uid = owner_uid(last.metadata)
        if self._owners.get(uid) is None:
            return None
        expectation = self._tracker.get_or_create(reference, uid)
        expectation.obj = last
        self._tracker.touch(expectation)
        self._tracker.require_live_read(expectation)
        return expectation

    def _end_request(self, owner: Owner, write: Write) -> Expectation[Any]:
        expectation = self._for_write(owner, write.target)
        expectation.end_write()
        self._tracker.touch(expectation)
        return expectation

    def _refute(self, expectation: Expectation[Any], obj: KubeObject | None) -> None:
        """Remember a change that was not carried out, as a live read of the object shows."""
        state = self._owners.get(expectation.writer)
        if state is None or obj is None or not _is_change(expectation.write):
            return
        if obj.metadata.resource_version == expectation.tried_at:
            state.refute(expectation.reference, expectation.tried_at)

    def _check_time(
        self, expectation: Expectation[Any], obj: KubeObject, *, created: bool = False
    ) -> None:
        """Report a response that is older than the store was before the request."""
        if expectation.sent_at.is_contradicted_by(obj, new=created):
            revision, held = obj.metadata.resource_version, expectation.sent_at.revision
            sign = f"{expectation.reference} is at {revision}, the store was at {held} before"
            self.on_rewound(expectation.reference.resource, sign)


def _is_change(write: Write | None) -> bool:
    return write is not None and not isinstance(write, Create | Delete)


def _has_other_owner(write: Write, obj: KubeObject) -> bool:
    """Return whether a created object has another owner than the one that was asked for."""
    if not isinstance(write, Create):
        return False
    asked = requested_owner(write.body.get("metadata") or {}, write.target.namespace)
    return bool(asked) and owner_uid(obj.metadata) not in {"", asked}


def _ignore(*_: object) -> None:
    """Do nothing: the default for callbacks."""
