"""What this process knows of one object that its cache does not show yet.

Of the stored and the expected object the newer one by resourceVersion counts. An object whose
deletion was accepted counts as terminating until the store shows that itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from controller.apimachinery.ownership import is_owned_by
from controller.kube.objects import KubeObject
from controller.kube.resources import Resource
from controller.runtime.plan import Create, Delete, Failure, Write
from informers import is_older

if TYPE_CHECKING:
    from controller.runtime.expectations.record import Record

T = TypeVar("T", bound=KubeObject)

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


@dataclass(frozen=True, slots=True)
class ObjectReference:
    """Identifies an object by resource and `namespace/name`."""

    resource: Resource[Any]
    key: str

    @property
    def namespace(self) -> str:
        """Namespace of the object, empty if it is cluster-scoped."""
        return self.key.rpartition("/")[0]

    @property
    def name(self) -> str:
        """Name of the object."""
        return self.key.rpartition("/")[2]

    def __str__(self) -> str:
        """Return `pods default/a`, for sentences."""
        return f"{self.resource} {self.key}"


@dataclass(frozen=True, slots=True)
class StoreState:
    """The state of an object in the store when a request for it was sent.

    Attributes:
        revision: revision of the store.
        uid: uid of the stored object, empty if there was none.
        object_revision: revision of the stored object.
    """

    revision: str = ""
    uid: str = ""
    object_revision: str = ""

    def is_contradicted_by(self, obj: KubeObject, *, new: bool) -> bool:
        """Return whether a response can only come from a server that has gone back in time since.

        The store held the object as it was at its revision. Any other state of it is later, and so
        is an object that the request has created (`new`).
        """
        meta = obj.metadata
        changed = meta.uid == self.uid and meta.resource_version != self.object_revision
        return (new or changed) and is_older(meta.resource_version, self.revision)


@dataclass(slots=True, eq=False)
class Expectation(Generic[T]):
    """The knowledge of this process about one object that its cache does not show yet.

    Attributes:
        reference: the object.
        owners: records of the owners that wrote to it, by uid.
        obj: newest object that a response or a live read returned and the store has not shown.
        deleted_uid: uid whose deletion was accepted, empty if none.
        deleted_at: when it was accepted, RFC 3339.
        gone: `deleted_uid` certainly does not exist any more.
        write: a write without a response: in flight, or of unknown outcome if `outcome_unknown`.
        writer: uid of the owner that made the last write.
        outcome_unknown: the response to `write` was lost.
        generation: generation of the writer for which `write` was planned.
        asked_at: clock time at which `write` was last sent, in seconds.
        unknown_since: clock time at which the write whose outcome is unknown was first sent, in
            seconds; it stays while the write is repeated. None if the outcome is known.
        unknown_failure: the last error of that write.
        tried_at: revision of the stored object when that write was sent; empty if there was none.
        presumed_failed: a live read has found that such a change was not carried out, and the store
            still shows the same revision. The owner may repeat it without another live read.
        live_only: `obj` was found by a live read although the store has passed it: it is not in
            the watched selection, and only live reads show its later states.
        name_conflict: a create met an object of this name that belongs to another owner.
        absent: a lookup found nothing.
        warning: a sentence for a condition, empty if there is none.
        blocking: the warning forbids creates and deletes in the scope of the write.
        scope: scope of the last write.
        needs_live_read: only a live read can resolve it.
        version: number of changes; shows whether one happened during a live read.
        sent_at: what the store showed when the latest request was sent.
        shown: revision of the object in the store, empty if it shows none.
        unseen_since: clock time from which on the store has had to show what the server answered,
            and has shown nothing new of the object, seconds; None if it has nothing to show.
        changed_at: clock time of the last change, seconds.
        live_reads: live reads since then.
    """

    reference: ObjectReference
    owners: dict[str, Record] = field(default_factory=dict[str, "Record"])
    obj: T | None = None
    deleted_uid: str = ""
    deleted_at: str = ""
    gone: bool = False
    write: Write | None = None
    writer: str = ""
    outcome_unknown: bool = False
    generation: int = 0
    asked_at: float = math.inf
    unknown_since: float | None = None
    unknown_failure: Failure | None = None
    tried_at: str = ""
    presumed_failed: bool = False
    live_only: bool = False
    name_conflict: bool = False
    absent: bool = False
    warning: str = ""
    blocking: bool = False
    scope: str = ""
    needs_live_read: bool = False
    version: int = 0
    sent_at: StoreState = StoreState()
    shown: str = ""
    unseen_since: float | None = None
    changed_at: float = 0.0
    live_reads: int = 0

    @property
    def unseen(self) -> bool:
        """True if the store has yet to show what the server answered to a write.

        It never shows an object that left it.
        """
        return (self.obj is not None or bool(self.deleted_uid)) and not self.live_only

    @property
    def pending_since(self) -> float | None:
        """Clock time since which the store has yet to show a write; None if it has none to show."""
        since = (self.unknown_since, self.asked_at, self.unseen_since)
        first = min((each for each in since if each is not None), default=math.inf)
        return first if first < math.inf else None

    @property
    def satisfied(self) -> bool:
        """True if nothing is expected that the store does not show."""
        return (
            self.obj is None
            and not self.deleted_uid
            and self.write is None
            and not (self.name_conflict or self.absent or self.warning)
        )

    @property
    def asked_by(self) -> str:
        """Uid of the owner that finds out about it: who wrote last, if it exists."""
        return self.writer if self.writer in self.owners else next(iter(self.owners), "")

    def touch(self, now: float) -> None:
        """Record a change: its live read is due after `FIRST_LIVE_READ`."""
        self.version += 1
        self.changed_at = now
        self.live_reads = 0

    def end_write(self) -> None:
        """Forget the write, because its outcome is known."""
        self.write, self.outcome_unknown, self.presumed_failed = None, False, False
        self.asked_at, self.unknown_since, self.unknown_failure = math.inf, None, None

    def mark_deleted(self, uid: str, at: str, *, gone: bool) -> None:
        """Record the deletion of `uid`; `gone` if it certainly no longer exists."""
        self.deleted_uid, self.deleted_at, self.gone = uid, at, gone
        if gone:
            # `obj` stays, because a store that lags may still show the deleted object.
            self.live_only = False

    def observe_revision(self, obj: KubeObject) -> None:
        """Let the owners observe the revision of the object."""
        for owner in self.owners.values():
            owner.observe_revision(self.reference.resource, obj.metadata.resource_version)

    def record_member(self) -> None:
        """Record that its write has created the object, perhaps a member of a replica."""
        owner, write = self.owners.get(self.writer), self.write
        if owner is not None and isinstance(write, Create) and write.member is not None:
            owner.record_member(write.member)

    def next_live_read(self, now: float) -> float:
        """Return the seconds until this object must be read live; zero or less means now."""
        if self.needs_live_read:
            return 0.0
        if self.presumed_failed:
            return self.changed_at + NOT_REPEATED - now
        if self.outcome_unknown:
            return 0.0
        if self.live_only:
            return self.changed_at + LIVE_ONLY_INTERVAL * self._count_live_only() - now
        interval = min(FIRST_LIVE_READ * 2**self.live_reads, MAX_LIVE_READ_INTERVAL)
        return self.changed_at + interval - now

    def _count_live_only(self) -> int:
        """Return how many objects like this one its owner has; of many, `MOST_LIVE_ONLY`."""
        owner = self.owners.get(self.asked_by)
        known = owner.expectations.values() if owner is not None else ()
        return max(1, len(list(islice((1 for each in known if each.live_only), MOST_LIVE_ONLY))))


def is_newer(a: KubeObject, b: KubeObject) -> bool:
    """Return whether `a` has a later resourceVersion than `b`."""
    return is_older(b.metadata.resource_version, a.metadata.resource_version)


def revision_of(obj: KubeObject | None) -> str:
    """Return the resourceVersion, empty without an object."""
    return obj.metadata.resource_version if obj is not None else ""


def effective(stored: T | None, expectation: Expectation[T]) -> T | None:
    """Return the object to show, given the stored object and the expectation."""
    newest = stored
    if expectation.obj is not None and (stored is None or is_newer(expectation.obj, stored)):
        newest = expectation.obj
    if newest is None or newest.metadata.uid != expectation.deleted_uid:
        return newest
    if expectation.gone:
        return None
    if newest.metadata.terminating:
        return newest
    metadata = msgspec.structs.replace(newest.metadata, deletion_timestamp=expectation.deleted_at)
    return msgspec.structs.replace(newest, metadata=metadata)


def is_carried_out(expectation: Expectation[Any], stored: KubeObject | None) -> str:
    """Return how the store shows that a write was done whose response was lost, empty if not.

    It shows no delete as long as it shows the object unchanged since the request was sent (EXP-22).
    """
    write, shown = expectation.write, effective(stored, expectation)
    if isinstance(write, Create):
        is_ours = shown is not None and is_owned_by(shown.metadata, expectation.writer)
        return "object" if is_ours else ""
    if not isinstance(write, Delete) or revision_of(stored) == expectation.tried_at:
        return ""
    exists = shown is not None and shown.metadata.uid == write.uid
    return "" if exists and shown is not None and not shown.metadata.terminating else "uid"
