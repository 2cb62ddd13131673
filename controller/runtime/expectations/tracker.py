"""Compares expectations with the store and drops those that it satisfies."""

from __future__ import annotations

import heapq
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from controller.apimachinery.conditions import rfc3339
from controller.apimachinery.ownership import is_owned_by
from controller.runtime.expectations.overlay import Expectation, effective, is_newer
from controller.runtime.plan import Create, Delete
from informers import is_comparable, is_older

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import datetime

    from controller.kube.objects import KubeObject
    from controller.kube.resources import Resource
    from controller.runtime.expectations.overlay import ObjectReference, OverlayIndex
    from controller.runtime.expectations.owners import OwnerIndex
    from controller.runtime.plan import Write


# Finds the expectations that a store has to satisfy once it reaches a revision.

_Order: TypeAlias = tuple[int, str]
"""A revision as length and digits, which sort like the number. A number may have more digits than
Python converts."""


class AwaitedRevisions:
    """Keys by the revision that their store must reach. Every call is O(log n), amortised."""

    def __init__(self) -> None:
        self._heaps: dict[tuple[Resource[Any], str], list[tuple[_Order, str]]] = {}

    def add(self, resource: Resource[Any], scope: str, revision: str, key: str) -> None:
        """Return `key` when the store of this scope reaches `revision`, never if it is opaque."""
        order = _order(revision)
        if order is not None:
            heapq.heappush(self._heaps.setdefault((resource, scope), []), (order, key))

    def reached(self, resource: Resource[Any], scope: str, revision: str) -> Iterator[str]:
        """Remove and return the keys that waited for `revision` or an earlier one."""
        heap = self._heaps.get((resource, scope))
        order = _order(revision)
        if not heap or order is None:
            return
        while heap and heap[0][0] <= order:
            yield heapq.heappop(heap)[1]


def _order(revision: str) -> _Order | None:
    """Return the sort key of the revision, None if it is opaque: then only live reads resolve."""
    return (len(revision), revision) if is_comparable(revision) else None


FIRST_LIVE_READ = 30.0
"""Seconds after which an expectation that the store has not satisfied is read live."""

NOT_REPEATED = 120.0
"""Seconds after which the object of a change that is presumed to have failed is read live, longer
than the back-off after which its owner repeats it."""

LIVE_ONLY_INTERVAL = 30.0
"""Seconds between two live reads of objects of one owner that have left the watched selection."""

MOST_LIVE_ONLY = 16
"""Number of such objects of an owner from which on each is read as often as all others."""

MAX_LIVE_READ_INTERVAL = 480.0
"""Maximum seconds between two live reads of one expectation; the interval doubles each time."""


class ExpectationTracker:
    """Keeps each expectation until the store satisfies it.

    Args:
        now: monotonic seconds.
        notify: enqueues the owners of an object.

    Attributes:
        resolved_by: expectations resolved so far, by what resolved them.
    """

    def __init__(
        self,
        overlays: OverlayIndex,
        owners: OwnerIndex,
        *,
        now: Callable[[], float],
        wall: Callable[[], datetime],
        notify: Callable[[Expectation[Any]], None],
    ) -> None:
        self._overlays = overlays
        self._owners = owners
        self._now = now
        self._wall = wall
        self._notify = notify
        self._awaited = AwaitedRevisions()
        self.resolved_by: dict[str, int] = {}

    def get_or_create(self, reference: ObjectReference, owner_uid: str) -> Expectation[Any]:
        """Return the expectation for an object, new if there was none, with this owner added."""
        expectation = self._overlays.get_expectation(reference) or Expectation(reference)
        if not expectation.pending:
            expectation.pending_since = self._now()
        state = self._owners.get(owner_uid)
        if state is not None:
            state.expectations[reference] = None
            expectation.owners[owner_uid] = None
        return expectation

    def touch(self, expectation: Expectation[Any]) -> None:
        """Record a change of the expectation: its live read is due after `FIRST_LIVE_READ`."""
        expectation.version += 1
        expectation.changed_at = self._now()
        expectation.live_reads = 0

    def require_live_read(self, expectation: Expectation[Any]) -> None:
        """Mark it as one that the store cannot satisfy, and withdraw all presumptions."""
        expectation.presumed_failed = False
        if not expectation.needs_live_read:
            expectation.needs_live_read = True
            self._notify(expectation)

    def next_live_read(self, expectation: Expectation[Any]) -> float:
        """Return the seconds until this object must be read live; zero or less means now."""
        if expectation.needs_live_read:
            return 0.0
        if expectation.presumed_failed:
            return expectation.changed_at + NOT_REPEATED - self._now()
        if expectation.outcome_unknown:
            return 0.0
        if expectation.live_only:
            interval = LIVE_ONLY_INTERVAL * self._count_live_only(expectation)
            return expectation.changed_at + interval - self._now()
        interval = min(FIRST_LIVE_READ * 2**expectation.live_reads, MAX_LIVE_READ_INTERVAL)
        return expectation.changed_at + interval - self._now()

    def _count_live_only(self, expectation: Expectation[Any]) -> int:
        """Return how many objects like this one its owner has; of many, `MOST_LIVE_ONLY`."""
        owner = expectation.writer or next(iter(expectation.owners), "")
        found = map(self._overlays.get_expectation, self._owners.state(owner).expectations)
        alike = (each for each in found if each is not None and each.live_only)
        return max(1, len(list(islice(alike, MOST_LIVE_ONLY))))

    def release(self, references: Iterable[ObjectReference]) -> None:
        """Drop what was expected only for owners that no longer exist."""
        for reference in references:
            expectation = self._overlays.get_expectation(reference)
            if expectation is not None:
                expectation.owners = {
                    uid: None for uid in expectation.owners if self._owners.get(uid)
                }
                self.update(expectation)

    def set_object(self, expectation: Expectation[Any], obj: KubeObject) -> None:
        """Show `obj` in place of the stored object until the store has caught up."""
        self.observe_owner_revision(expectation, obj)
        if expectation.obj is not None and is_newer(expectation.obj, obj):
            return
        expectation.obj = obj
        reference = expectation.reference
        scope = self._overlays.get(reference.resource).scope_of(reference.namespace)
        revision = obj.metadata.resource_version
        self._awaited.add(reference.resource, scope, revision, reference.key)

    def observe_owner_revision(self, expectation: Expectation[Any], obj: KubeObject) -> None:
        """Let the owners of this object observe its revision."""
        for state in self._owners.find(expectation.owners):
            state.observe_revision(expectation.reference.resource, obj.metadata.resource_version)

    def observe_revision(self, resource: Resource[Any], scope: str, revision: str) -> None:
        """Check what was expected by `revision`, which the store has reached.

        No event reports the deletion of an object that the store has never shown.
        """
        overlay = self._overlays.get(resource)
        for key in self._awaited.reached(resource, scope, revision):
            expectation = overlay.expectations.get(key)
            if expectation is None:
                continue
            unseen = expectation.obj is not None and self._passed_unseen(
                expectation, expectation.obj
            )
            self.update(expectation)
            if unseen and expectation.satisfied:
                self._notify(expectation)

    def mark_deleted(self, expectation: Expectation[Any], uid: str, *, gone: bool) -> None:
        """Record the deletion of `uid`; `gone` if it certainly no longer exists."""
        expectation.deleted_uid = uid
        expectation.deleted_at = rfc3339(self._wall())
        expectation.gone = gone
        if gone:
            # `obj` stays, because a store that lags may still show the deleted object.
            expectation.live_only = False

    def apply_live_object(self, expectation: Expectation[Any], obj: KubeObject | None) -> None:
        """Apply the result of a live read to the expectation."""
        if obj is None:
            self._apply_absence(expectation)
        else:
            self._apply_presence(expectation, obj)
        self.update(expectation)

    def update(self, expectation: Expectation[Any]) -> None:
        """Compare a changed expectation with the store, and drop it if it is satisfied."""
        overlay, shown = self._overlays.get(expectation.reference.resource), ""
        if overlay.covers(expectation.reference.namespace):
            stored = overlay.stored(expectation.reference)
            self._compare_with_store(expectation, stored)
            shown = _revision(stored)
        else:
            expectation.obj, expectation.deleted_uid = None, ""
        follows, expectation.shown = shown != expectation.shown, shown
        if not expectation.unseen:
            expectation.unseen_since = None
        elif expectation.unseen_since is None or follows:
            expectation.unseen_since = self._now()
        if expectation.owners and not expectation.satisfied:
            overlay.put(expectation)
        else:
            self.forget(expectation)

    def forget(self, expectation: Expectation[Any]) -> None:
        """Drop it, whether it is satisfied or not."""
        self._overlays.get(expectation.reference.resource).drop(expectation.reference.key)
        for state in self._owners.find(expectation.owners):
            state.expectations.pop(expectation.reference, None)

    def record_member(self, owner_uid: str, write: Write | None) -> None:
        """Record that this write has created its object, perhaps a member of a replica."""
        if isinstance(write, Create) and write.member is not None:
            self._owners.state(owner_uid).record_member(write.member)

    def count(self, by: str) -> None:
        """Count a resolved expectation."""
        self.resolved_by[by] = self.resolved_by.get(by, 0) + 1

    def _apply_absence(self, expectation: Expectation[Any]) -> None:
        expectation.warning, expectation.blocking, expectation.name_conflict = "", False, False
        overlay = self._overlays.get(expectation.reference.resource)
        covered = overlay.covers(expectation.reference.namespace)
        shown = effective(overlay.stored(expectation.reference), expectation) if covered else None
        if shown is not None:
            self.mark_deleted(expectation, shown.metadata.uid, gone=True)

    def _apply_presence(self, expectation: Expectation[Any], obj: KubeObject) -> None:
        if obj.metadata.uid != expectation.deleted_uid or not obj.metadata.terminating:
            expectation.deleted_uid, expectation.gone = "", False
        owned = any(is_owned_by(obj.metadata, uid) for uid in expectation.owners)
        expectation.name_conflict = expectation.name_conflict and not owned
        expectation.obj = None  # the live read wins
        self.set_object(expectation, obj)
        expectation.live_only = self._passed_unseen(expectation, obj)

    def _passed_unseen(self, expectation: Expectation[Any], obj: KubeObject) -> bool:
        """Return whether the store has passed `obj`'s revision without showing any such object."""
        overlay = self._overlays.get(expectation.reference.resource)
        if not overlay.covers(expectation.reference.namespace):
            return False
        revision = overlay.cache_of(expectation.reference.namespace).resource_version
        passed = bool(revision) and not is_older(revision, obj.metadata.resource_version)
        return passed and overlay.stored(expectation.reference) is None

    def _compare_with_store(self, expectation: Expectation[Any], stored: KubeObject | None) -> None:
        """Drop what the store satisfies; require a live read where it cannot tell (EXP-22)."""
        if expectation.outcome_unknown and _store_shows_create(expectation, stored):
            self.record_member(expectation.writer, expectation.write)
            self._end_unknown_write(expectation, "object")
        if expectation.outcome_unknown and _store_shows_delete(expectation, stored):
            self._end_unknown_write(expectation, "uid")
        if expectation.presumed_failed and _revision(stored) != expectation.tried_at:
            expectation.presumed_failed = False
            self._notify(expectation)
        if expectation.obj is not None:
            self._compare_object(expectation, expectation.obj, stored)
        if expectation.deleted_uid and expectation.obj is None:
            self._compare_deletion(expectation, stored)

    def _end_unknown_write(self, expectation: Expectation[Any], by: str) -> None:
        """End a write of unknown outcome that the store shows as carried out."""
        expectation.end_write()
        self.count(by)
        self._notify(expectation)

    def _compare_object(
        self, expectation: Expectation[Any], obj: KubeObject, stored: KubeObject | None
    ) -> None:
        if stored is not None and not is_newer(obj, stored):
            expectation.obj, expectation.live_only = None, False
            expectation.needs_live_read = False
            self.count("object")
        elif not expectation.live_only and self._passed_unseen(expectation, obj):
            if obj.metadata.uid == expectation.deleted_uid:
                expectation.obj = None
                self.count("revision")
            else:
                self.require_live_read(expectation)

    def _compare_deletion(self, expectation: Expectation[Any], stored: KubeObject | None) -> None:
        if stored is None or stored.metadata.uid != expectation.deleted_uid:
            expectation.deleted_uid, expectation.gone = "", False
            self.count("uid")
        elif stored.metadata.terminating and not expectation.gone:
            expectation.deleted_uid = ""
            self.count("uid")


def _revision(obj: KubeObject | None) -> str:
    return obj.metadata.resource_version if obj is not None else ""


def _store_shows_create(expectation: Expectation[Any], stored: KubeObject | None) -> bool:
    """Return whether the store shows the object of a create whose response was lost."""
    shown = effective(stored, expectation)
    return (
        isinstance(expectation.write, Create)
        and shown is not None
        and is_owned_by(shown.metadata, expectation.writer)
    )


def _store_shows_delete(expectation: Expectation[Any], stored: KubeObject | None) -> bool:
    """Return whether the store shows the outcome of a delete whose response was lost (EXP-22).

    It does not as long as it shows the object unchanged since the request was sent.
    """
    write = expectation.write
    if not isinstance(write, Delete) or _revision(stored) == expectation.tried_at:
        return False
    shown = effective(stored, expectation)
    return shown is None or shown.metadata.uid != write.uid or shown.metadata.terminating
