"""What counts in place of a stored object until the store has caught up: an entry an object.

    Written    an answer or a live read that the store does not show yet
    Deleted    an accepted deletion: the object counts as terminating, or is gone
    Outside    an object that exists, and that the watch's selector does not match

Of the stored object and that of the entry the newer one by resourceVersion counts. An entry ends
when the store shows its object at that revision or later, terminating, gone or replaced (EXP-22).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from controller.kube.objects import KubeObject
from controller.kube.resources import Resource
from controller.runtime.plan import Failure, Target, Write
from informers import is_older

if TYPE_CHECKING:
    from controller.runtime.record import Record

T = TypeVar("T", bound=KubeObject)


class ObjectReference(msgspec.Struct, frozen=True, cache_hash=True):
    """Identifies an object by resource and `namespace/name`; each event needs its hash."""

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


def reference_of(target: Target) -> ObjectReference:
    """Return the object that a write or a lookup is about."""
    return ObjectReference(target.resource, target.key)


class StoreState(msgspec.Struct, frozen=True):
    """Revision of the store, and the stored object if any, when a request for it was sent."""

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


class Written(msgspec.Struct, Generic[T], frozen=True):
    """The newest object that an answer or a live read returned."""

    obj: T


class Deleted(msgspec.Struct, Generic[T], frozen=True):
    """The accepted deletion of an object.

    Attributes:
        at: when it was accepted, RFC 3339.
        obj: newest state that was returned. A store that lags may show it once more.
        gone: it certainly does not exist any more.
    """

    uid: str
    at: str
    obj: T | None = None
    gone: bool = False


class Outside(msgspec.Struct, Generic[T], frozen=True):
    """What a live read found although the store has passed it: only live reads show it."""

    obj: T


Entry: TypeAlias = Written[T] | Deleted[T] | Outside[T]


class UnansweredWrite(msgspec.Struct, frozen=True):
    """A write without an answer: in flight, or of unknown outcome because the answer was lost.

    Attributes:
        generation: generation of the owner for which it was planned.
        asked_at: clock time at which it was last sent, in seconds.
        tried_at: revision of the stored object at that time; empty if there was none.
        unknown_since: clock time at which it was first sent if an answer to it was lost; it stays
            while the write is repeated. None if none was.
        failure: the error instead of the last answer; None if it was cut off.
    """

    write: Write
    generation: int
    asked_at: float
    tried_at: str
    in_flight: bool = True
    unknown_since: float | None = None
    failure: Failure | None = None

    @property
    def since(self) -> float:
        """Clock time since which its outcome is awaited."""
        return self.asked_at if self.unknown_since is None else self.unknown_since


class Finding(msgspec.Struct, frozen=True, eq=False):
    """What an answer or a lookup said of a name, and no store shows.

    Attributes:
        warning: a sentence for a condition about what admission has changed; else empty.
        blocks: scope in which nothing is created or deleted because of that.
    """

    warning: str = ""
    blocks: str | None = None


ABSENT: Final = Finding()
"""A lookup found nothing."""

TAKEN: Final = Finding()
"""A create met an object of this name that belongs to another owner."""


class Questions(msgspec.Struct, frozen=True):
    """What the caches cannot tell, so that the owner's next reconcile has to find it out.

    Attributes:
        repeats: creates and deletes of unknown outcome, which are sent again.
        reads: objects that are to be read live now.
        wait: seconds until the next one is, None if the caches can tell all that is left.
    """

    repeats: tuple[Write, ...] = ()
    reads: tuple[ObjectReference, ...] = ()
    wait: float | None = None


@dataclass(slots=True, eq=False)
class Expectation(Generic[T]):
    """The knowledge of this process about one object that its cache does not show yet.

    What its owners have written and found out about it stands in their records.

    Attributes:
        owners: records of the owners that wrote to it, by uid.
        entry: what counts in place of the stored object, None if that itself does.
        needs_live_read: only a live read can resolve it.
        version: number of changes; shows whether one happened during a live read.
        sent_at: what the store showed when the latest request was sent.
        unseen_since: clock time from which on the store has had to show what the server answered,
            and has shown nothing new of the object, seconds; None if it has nothing to show.
        changed_at: clock time of the last change, seconds.
        live_reads: live reads since then.
    """

    reference: ObjectReference
    owners: dict[str, Record] = field(default_factory=dict[str, "Record"])
    entry: Entry[T] | None = None
    needs_live_read: bool = False
    version: int = 0
    sent_at: StoreState = field(default_factory=StoreState)
    shown: str = ""
    unseen_since: float | None = None
    changed_at: float = 0.0
    live_reads: int = 0

    @property
    def unanswered(self) -> tuple[UnansweredWrite, ...]:
        """The owners' writes to it without an answer."""
        found = (record.writes.get(self.reference) for record in self.owners.values())
        return tuple(each for each in found if each is not None)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What its owners have found out about its name."""
        found = (record.findings.get(self.reference) for record in self.owners.values())
        return tuple(each for each in found if each is not None)

    @property
    def pending_since(self) -> float | None:
        """Clock time since which the store has yet to show a write; None if it has none to show."""
        since = (self.unseen_since, *(each.since for each in self.unanswered))
        return min((each for each in since if each is not None), default=None)

    @property
    def satisfied(self) -> bool:
        """True if nothing is expected that the store does not show."""
        reference, owners = self.reference, self.owners.values()
        return self.entry is None and not any(
            reference in record.writes or reference in record.findings for record in owners
        )

    def touch(self, now: float) -> None:
        """Record a change: its live read is due after `FIRST_LIVE_READ`."""
        self.version += 1
        self.changed_at = now
        self.live_reads = 0


def with_answer(entry: Entry[T] | None, obj: T) -> Entry[T]:
    """Return the entry after an answer, unless it knows a newer object."""
    known = entry.obj if entry is not None else None
    if entry is not None and known is not None and is_newer(known, obj):
        return entry
    if isinstance(entry, Deleted) and entry.uid == obj.metadata.uid:
        return replace(entry, obj=obj)
    is_known = known is not None and known.metadata.uid == obj.metadata.uid
    return Outside(obj) if isinstance(entry, Outside) and is_known else Written(obj)


def with_deletion(entry: Entry[T] | None, uid: str, at: str, *, gone: bool) -> Entry[T]:
    """Return the entry after the deletion of `uid`, unless it knows a namesake that is newer."""
    if entry is None or entry.obj is None:
        return Deleted(uid, at, gone=gone)
    if entry.obj.metadata.uid != uid:
        return entry
    if isinstance(entry, Outside) and not gone:
        return Outside(_terminating(entry.obj, at))
    return Deleted(uid, at, entry.obj, gone)


def effective(stored: T | None, entry: Entry[T] | None) -> T | None:
    """Return the object to show, given the stored object and the entry."""
    newest = stored
    obj = entry.obj if entry is not None else None
    if obj is not None and (stored is None or is_newer(obj, stored)):
        newest = obj
    if newest is None or not isinstance(entry, Deleted) or newest.metadata.uid != entry.uid:
        return newest
    return None if entry.gone else _terminating(newest, entry.at)


def is_ended(entry: Entry[T], stored: T | None, *, passed: bool) -> bool:
    """Return whether the store has caught up with an entry.

    `passed` says that it is at or past the entry's object and shows none under its name.
    """
    is_shown = entry.obj is not None and stored is not None and not is_newer(entry.obj, stored)
    if not isinstance(entry, Deleted):
        return is_shown
    if entry.obj is not None and not (is_shown or passed):
        return False
    if stored is None or stored.metadata.uid != entry.uid:
        return True
    return stored.metadata.terminating and not entry.gone


def is_newer(a: KubeObject, b: KubeObject) -> bool:
    """Return whether `a` has a later resourceVersion than `b`."""
    return is_older(b.metadata.resource_version, a.metadata.resource_version)


def revision_of(obj: KubeObject | None) -> str:
    """Return the resourceVersion, empty without an object."""
    return obj.metadata.resource_version if obj is not None else ""


def _terminating(obj: T, at: str) -> T:
    if obj.metadata.terminating:
        return obj
    metadata = msgspec.structs.replace(obj.metadata, deletion_timestamp=at)
    return msgspec.structs.replace(obj, metadata=metadata)
