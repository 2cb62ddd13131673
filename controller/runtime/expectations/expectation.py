"""The knowledge of this process about one object that its cache does not show yet.

Of the stored and the expected object the newer one by resourceVersion counts. An object whose
deletion was accepted counts as terminating until the store shows that itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from controller.kube.objects import KubeObject
from informers import is_older

if TYPE_CHECKING:
    from controller.kube.resources import Resource
    from controller.runtime.plan import Failure, Write


T = TypeVar("T", bound=KubeObject)


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
        owners: uids of the owners that wrote to it.
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
        pending_since: clock time from which on the store has had a write to show, seconds.
        shown: revision of the object in the store, empty if it shows none.
        unseen_since: clock time from which on the store has had to show what the server answered,
            and has shown nothing new of the object, seconds; None if it has nothing to show.
        changed_at: clock time of the last change, seconds.
        live_reads: live reads since then.
    """

    reference: ObjectReference
    owners: dict[str, None] = field(default_factory=dict[str, None])
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
    pending_since: float = 0.0
    shown: str = ""
    unseen_since: float | None = None
    changed_at: float = 0.0
    live_reads: int = 0

    def end_write(self) -> None:
        """Forget the write, because its outcome is known."""
        self.write, self.outcome_unknown, self.presumed_failed = None, False, False
        self.asked_at, self.unknown_since, self.unknown_failure = math.inf, None, None

    @property
    def pending(self) -> bool:
        """True if the store has yet to show a write. It never shows an object that left it."""
        return self.write is not None or self.unseen

    @property
    def unseen(self) -> bool:
        """True if the store has yet to show what the server answered to a write."""
        answered = self.obj is not None or bool(self.deleted_uid)
        return answered and not self.live_only

    @property
    def satisfied(self) -> bool:
        """True if nothing is expected that the store does not show."""
        return (
            self.obj is None
            and not self.deleted_uid
            and self.write is None
            and not (self.name_conflict or self.absent or self.warning)
        )


def is_newer(a: KubeObject, b: KubeObject) -> bool:
    """Return whether `a` has a later resourceVersion than `b`."""
    return is_older(b.metadata.resource_version, a.metadata.resource_version)


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
