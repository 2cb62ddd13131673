"""The ledger of own writes: what this process did and its caches have not shown yet.

Every write is *intended* before the request; after the answer the returned object or the deleted
uid stands in for what the store will show; a lost answer leaves the write *unknown*, never failed.
`observe` reads through the overlay, so nothing is counted twice and nothing is waited for.

An entry is settled by the store itself: it shows the object at or past that revision, or shows it
terminating, gone or replaced (EXP-20 to 22). What the store cannot settle becomes a question that
`settle.Settler` answers with one live read (EXP-9, EXP-24): an object passed but never shown, one
that left the selector without having been seen terminating, an entry older than 30 seconds, and
every entry after a reset of the server (EXP-45). Nothing expires blindly.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from controller.apimachinery.ownership import is_owned_by
from controller.apimachinery.timestamps import rfc3339
from controller.kube.objects import KubeObject
from controller.runtime.expectations.create_errors import Refusals
from controller.runtime.expectations.overlay import Entry, Overlays, Reference, effective, is_newer
from controller.runtime.expectations.owners import Accounts
from controller.runtime.expectations.reader import OverlaidReads
from controller.runtime.reconcile.plan import Create
from informers import is_comparable, is_older

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from controller.kube.resources import Resource
    from controller.runtime.expectations.owners import Owner
    from controller.runtime.reconcile.kind import LogText, Refusal
    from controller.runtime.reconcile.plan import LiveList, LogTail, Target, Write
    from informers import Lister

T = TypeVar("T", bound=KubeObject)

FIRST_LIVE_READ = 30.0
"""Seconds until the store's silence about an entry is answered by a live read."""

LONGEST_WAIT = 480.0
"""Live reads of the same entry are this many seconds apart at most; the distance doubles."""


@dataclass(frozen=True, slots=True)
class LedgerStatistics:
    """Numbers for metrics and tests."""

    owners: int
    entries: int
    pending: int
    unknown: int
    oldest_age: float
    in_question: int
    corrections: int
    live_reads: int
    settled_by: Mapping[str, int]


class Ledger:
    """Records writes and finds out when an entry is settled.

    Synchronous throughout; an event costs O(1), amortised.

    Args:
        now: monotonic seconds.
        wall: the time of day, for deletion timestamps.

    Attributes:
        reads: the caches overlaid with the entries: what `observe` gets.
        ask: has a live read made, in so many seconds; set by the settler.
        wake: has an owner looked at again; set by the operator.
    """

    def __init__(self, *, now: Callable[[], float], wall: Callable[[], datetime]) -> None:
        self._now = now
        self._wall = wall
        self._overlays = Overlays()
        self._accounts = Accounts()
        self._refusals = Refusals(self._accounts)
        self.reads = OverlaidReads(self._overlays, self._accounts, self._refusals)
        self._waiting: dict[tuple[Resource[Any], str], list[tuple[int, str]]] = {}
        self._live_reads = 0
        self._settled_by: dict[str, int] = {}
        self.ask: Callable[[Reference, float], None] = lambda _reference, _delay: None
        self.wake: Callable[[Owner], None] = lambda _owner: None

    # -- caches -------------------------------------------------------------------------------

    def add_cache(
        self,
        resource: Resource[T],
        namespace: str,
        cache: Lister[T],
        indexes: Mapping[str, Callable[[T], Sequence[str]]],
        *,
        selective: bool = False,
        quarantined: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Read `resource` in `namespace` (empty: everywhere) from `cache`.

        `selective` says that a label selector filters it, so that an object may leave it alive;
        `quarantined` holds the keys of objects that the cache cannot show, with the reasons.
        """
        overlay = self._overlays.of(resource)
        overlay.add_cache(namespace, cache, indexes, quarantined)
        overlay.selective = overlay.selective or selective

    def advanced(self, resource: Resource[Any], namespace: str, revision: str) -> None:
        """The store of this scope has reached `revision`, contents first: settle up to there."""
        heap = self._waiting.get((resource, namespace))
        number = _number(revision)
        if not heap or number is None:
            return
        overlay = self._overlays.of(resource)
        while heap and heap[0][0] <= number:
            _, key = heapq.heappop(heap)
            entry = overlay.entry(key)
            if entry is not None:
                self._close(entry)

    def changed(self, resource: Resource[Any], key: str) -> None:
        """The store shows another state of this object: its entry may be settled."""
        entry = self._overlays.of(resource).entry(key)
        if entry is not None:
            self._close(entry)

    def vanished(self, resource: Resource[Any], last: KubeObject) -> None:
        """The store does not show this object any more; `last` is how it knew it.

        An object that was not terminating may have left the selector alive: it is kept until a
        live read has told (EXP-24).
        """
        reference = Reference(resource, last.metadata.key)
        entry = self.entry(reference)
        uid, terminating = last.metadata.uid, last.metadata.terminating
        known = entry is not None and (entry.obj is not None or entry.deleted_uid == uid)
        if not known and not terminating and self._overlays.of(resource).selective:
            entry = self._keep(reference, last) or entry
        if entry is None:
            return
        if terminating and entry.obj is not None and entry.obj.metadata.uid == uid:
            self._mark_deleted(entry, uid, gone=True)
        if entry.doubt:
            self._question(entry)
        self._close(entry)

    def reset(self, resource: Resource[Any]) -> None:
        """The server's revisions went backwards: every entry is settled live (EXP-45)."""
        overlay = self._overlays.of(resource)
        overlay.era += 1
        for account in self._accounts.all():
            account.revisions.pop(resource, None)
        for entry in list(overlay.entries()):
            if entry.gone:
                entry.obj, entry.deleted_uid, entry.gone = None, "", False
                self._close(entry)
            if not entry.settled:
                self._question(entry)

    # -- owners -------------------------------------------------------------------------------

    def enter(self, owner: Owner) -> None:
        """Take note of an owner before it is observed; a namesake is forgotten (EXP-29)."""
        self._release(self._accounts.enter(owner))

    def forget(self, controller: str, key: str) -> None:
        """The owner is gone: drop what was recorded for it (EXP-8)."""
        self._release(self._accounts.leave(controller, key))

    def _release(self, references: Iterable[Reference]) -> None:
        for reference in references:
            entry = self.entry(reference)
            if entry is not None:
                entry.owners = {uid: None for uid in entry.owners if self._accounts.get(uid)}
                self._close(entry)

    # -- writes -------------------------------------------------------------------------------

    def intend(self, owner: Owner, write: Write) -> None:
        """A request for `write` is about to be sent."""
        entry = self._entry(owner, write.target)
        entry.write, entry.unknown = write, False
        account = self._accounts.get(owner.uid)
        if account is not None and isinstance(write, Create):
            account.will_make(write.target.resource)
        self._touch(entry)
        self._close(entry)

    def answered(self, owner: Owner, write: Write, obj: KubeObject) -> None:
        """The server carried out a create or a change and returned `obj`."""
        entry = self._answer(owner, write)
        self._remember(entry, obj)
        self._has_made(owner.uid, write)
        self._refusals.forget(entry.reference)
        entry.taken = entry.absent = False
        self._close(entry)

    def deleted(self, owner: Owner, write: Write, uid: str, obj: KubeObject | None = None) -> None:
        """The server accepted the deletion of `uid`; `obj` is the answer's body, if it had one."""
        entry = self._answer(owner, write)
        self._mark_deleted(entry, uid, gone=False)
        if obj is not None and obj.metadata.uid == uid:
            self._note_revision(entry, obj)
            if obj.metadata.terminating:
                self._remember(entry, obj)
        self._close(entry)

    def absent(self, owner: Owner, write: Write, uid: str) -> None:
        """The server said that the object with `uid` does not exist (EXP-35, EXP-36)."""
        entry = self._answer(owner, write)
        self._mark_deleted(entry, uid, gone=True)
        self._close(entry)

    def failed(self, owner: Owner, write: Write) -> None:
        """The server certainly did not carry out `write`: it leaves no trace (EXP-41)."""
        self._close(self._answer(owner, write))

    def refused(self, owner: Owner, write: Create, refusal: Refusal) -> None:
        """The server would not create the object: nothing is there, and planners are told why."""
        reference = Reference(write.target.resource, write.target.key)
        self._refusals.note(owner, reference, refusal)

    def lost(self, owner: Owner, write: Write) -> None:
        """The answer to `write` was lost: unknown, until repeated or read live (EXP-32)."""
        entry = self._entry(owner, write.target)
        entry.write, entry.unknown = write, True
        self._touch(entry)
        self.ask(entry.reference, 0.0)
        self._close(entry)

    def occupied(self, owner: Owner, write: Write) -> None:
        """A create met an object of this name that belongs to somebody else (EXP-33)."""
        entry = self._answer(owner, write)
        entry.taken = True
        self._close(entry)

    def doubted(self, owner: Owner, write: Write, doubt: str, *, blocking: bool) -> None:
        """The created object is not what was asked for: say so, do not try again (EXP-43).

        `blocking` doubts keep the write's scope from making and deleting anything.
        """
        entry = self._entry(owner, write.target)
        entry.doubt, entry.blocking = doubt, blocking
        self._touch(entry)
        self._close(entry)

    def looked_up(self, owner: Owner, target: Target, obj: KubeObject | None) -> None:
        """A lookup of the plan found `obj`, or nothing."""
        entry = self._entry(owner, target)
        entry.absent = obj is None
        self._touch(entry)
        self._found(entry, obj)

    def listed(self, owner: Owner, lookup: LiveList) -> None:
        """A live list of the plan was answered, and all that it found has been looked up."""
        account = self._accounts.get(owner.uid)
        if account is not None:
            account.lists.add(lookup)

    def read_log(self, owner: Owner, lookup: LogTail, text: LogText) -> None:
        """The tail of a log was read, or cannot be."""
        account = self._accounts.get(owner.uid)
        if account is not None:
            account.keep_log(lookup, text)

    def contradicted(self, owner: Owner, write: Write, obj: KubeObject | None) -> None:
        """A precondition of `write` failed; a live read found `obj`, or nothing (EXP-34)."""
        self._found(self._answer(owner, write), obj)

    # -- live reads ---------------------------------------------------------------------------

    def entry(self, reference: Reference) -> Entry[Any] | None:
        """The entry for an object, if there is one."""
        return self._overlays.entry(reference)

    def peek(self, target: Target) -> KubeObject | None:
        """What a reader is shown of the target, None also if nobody watches it."""
        overlay = self._overlays.of(target.resource)
        return overlay.get(target.key) if overlay.covers(target.namespace) else None

    def writer_of(self, entry: Entry[Any]) -> Owner | None:
        """On whose behalf the last write was made, None if that owner is gone."""
        account = self._accounts.get(entry.writer)
        return next(iter(account.owners.values()), None) if account is not None else None

    def next_live_read(self, entry: Entry[Any]) -> float:
        """Seconds until this entry must be read live; zero or less means now."""
        if entry.in_question:
            return 0.0
        patience = min(FIRST_LIVE_READ * 2**entry.live_reads, LONGEST_WAIT)
        return entry.since + patience - self._now()

    def wake_owners(self, entry: Entry[Any]) -> None:
        """Have the owners of an object look at it again."""
        for account in self._accounts.those(entry.owners):
            for owner in account.owners.values():
                self.wake(owner)

    def expire(self, entry: Entry[Any]) -> bool:
        """Forget an answer "not found" that has become old; whether nothing else was in it."""
        entry.absent = False
        self._close(entry)
        return entry.settled

    def read_live(self, entry: Entry[Any], obj: KubeObject | None) -> None:
        """A live read of this object found `obj`, or nothing. Wakes its owners.

        A write of unknown outcome is answered by it as well: what is there is what counts.
        """
        self._live_reads += 1
        self._count("live_read")
        entry.live_reads += 1
        entry.version += 1
        entry.since = self._now()
        entry.in_question = False
        entry.write, entry.unknown = None, False
        self._found(entry, obj)
        self.wake_owners(entry)

    # -- numbers ------------------------------------------------------------------------------

    def statistics(self) -> LedgerStatistics:
        """Numbers for metrics and tests; O(entries)."""
        overlays = self._overlays.all()
        entries = [entry for overlay in overlays for entry in overlay.entries()]
        pending = [e for e in entries if e.obj is not None or e.deleted_uid or e.write]
        now = self._now()
        return LedgerStatistics(
            owners=len(self._accounts.all()),
            entries=len(entries),
            pending=len(pending),
            unknown=sum(1 for e in entries if e.unknown),
            oldest_age=max((now - e.born for e in pending), default=0.0),
            in_question=sum(1 for e in entries if e.in_question),
            corrections=sum(overlay.corrections for overlay in overlays),
            live_reads=self._live_reads,
            settled_by=dict(self._settled_by),
        )

    # -- inside -------------------------------------------------------------------------------

    def _entry(self, owner: Owner, target: Target) -> Entry[Any]:
        entry = self._open(Reference(target.resource, target.key), owner.uid)
        entry.writer, entry.scope = owner.uid, target.scope
        return entry

    def _open(self, reference: Reference, owner_uid: str) -> Entry[Any]:
        """The entry for an object, made if need be, and attached to its owner's account."""
        entry = self.entry(reference) or Entry(reference, born=self._now())
        account = self._accounts.get(owner_uid)
        if account is not None:
            account.entries[reference] = None
            entry.owners[owner_uid] = None
        return entry

    def _keep(self, reference: Reference, last: KubeObject) -> Entry[Any] | None:
        """Hold on to an object that has left the selector alive, until a live read has told."""
        controller = last.metadata.controller
        if controller is None or self._accounts.get(controller.uid) is None:
            return None
        entry = self._open(reference, controller.uid)
        entry.obj = last
        self._touch(entry)
        self._question(entry)
        return entry

    def _answer(self, owner: Owner, write: Write) -> Entry[Any]:
        entry = self._entry(owner, write.target)
        entry.write, entry.unknown = None, False
        self._touch(entry)
        return entry

    def _touch(self, entry: Entry[Any]) -> None:
        entry.version += 1
        entry.since = self._now()
        entry.live_reads = 0
        self.ask(entry.reference, FIRST_LIVE_READ)

    def _question(self, entry: Entry[Any]) -> None:
        if not entry.in_question:
            entry.in_question = True
            self.ask(entry.reference, 0.0)

    def _remember(self, entry: Entry[Any], obj: KubeObject) -> None:
        """`obj` stands in for what the store will show, until it does."""
        self._note_revision(entry, obj)
        if entry.obj is not None and is_newer(entry.obj, obj):
            return
        entry.obj = obj
        number = _number(obj.metadata.resource_version)
        if number is not None:
            reference = entry.reference
            scope = self._overlays.of(reference.resource).scope_of(reference.namespace)
            heap = self._waiting.setdefault((reference.resource, scope), [])
            heapq.heappush(heap, (number, reference.key))

    def _note_revision(self, entry: Entry[Any], obj: KubeObject) -> None:
        for account in self._accounts.those(entry.owners):
            account.note_revision(entry.reference.resource, obj.metadata.resource_version)

    def _mark_deleted(self, entry: Entry[Any], uid: str, *, gone: bool) -> None:
        entry.deleted_uid = uid
        entry.deleted_at = rfc3339(self._wall())
        entry.gone = gone
        if gone:
            entry.kept = (
                False  # its object stays: a late store may yet show it, and is not believed
            )

    def _found(self, entry: Entry[Any], obj: KubeObject | None) -> None:
        """Put what a live read found into the entry."""
        overlay = self._overlays.of(entry.reference.resource)
        if obj is None:
            entry.doubt, entry.blocking, entry.taken = "", False, False
            covered = overlay.covers(entry.reference.namespace)
            shown = effective(overlay.stored(entry.reference), entry) if covered else None
            if shown is not None:
                self._mark_deleted(entry, shown.metadata.uid, gone=True)
        else:
            if obj.metadata.uid != entry.deleted_uid or not obj.metadata.terminating:
                entry.deleted_uid, entry.gone = "", False
            owned = any(is_owned_by(obj.metadata, uid) for uid in entry.owners)
            entry.taken = entry.taken and not owned
            entry.obj = None  # a live read is the truth, also after a reset of the server
            self._remember(entry, obj)
            entry.kept = self._passed_unseen(entry, obj)
        self._close(entry)

    def _passed_unseen(self, entry: Entry[Any], obj: KubeObject) -> bool:
        """Whether the store has passed `obj`'s revision without showing any such object."""
        overlay = self._overlays.of(entry.reference.resource)
        if not overlay.covers(entry.reference.namespace):
            return False
        revision = overlay.cache_of(entry.reference.namespace).resource_version
        passed = bool(revision) and not is_older(revision, obj.metadata.resource_version)
        return passed and overlay.stored(entry.reference) is None

    def _close(self, entry: Entry[Any]) -> None:
        """Judge an entry after a change, and drop it if nothing is left to remember."""
        overlay = self._overlays.of(entry.reference.resource)
        if overlay.covers(entry.reference.namespace):
            self._judge(entry, overlay.stored(entry.reference))
        else:
            entry.obj, entry.deleted_uid = None, ""
        if entry.owners and not entry.settled:
            overlay.put(entry)
            return
        overlay.drop(entry.reference.key)
        for account in self._accounts.those(entry.owners):
            account.entries.pop(entry.reference, None)

    def _judge(self, entry: Entry[Any], stored: KubeObject | None) -> None:
        """Settle what the store settles; question what it cannot (EXP-22)."""
        if entry.unknown and _has_worked(entry, stored):
            self._has_made(entry.writer, entry.write)
            entry.write, entry.unknown = None, False
            self._count("object")
            self.wake_owners(entry)
        obj = entry.obj
        if obj is not None:
            if stored is not None and not is_newer(obj, stored):
                entry.obj, entry.kept, entry.in_question = None, False, False
                self._count("object")
            elif not entry.kept and self._passed_unseen(entry, obj):
                if obj.metadata.uid == entry.deleted_uid:
                    entry.obj = None
                    self._count("revision")
                else:
                    self._question(entry)
        if entry.deleted_uid and entry.obj is None:
            if stored is None or stored.metadata.uid != entry.deleted_uid:
                entry.deleted_uid, entry.gone = "", False
                self._count("uid")
            elif stored.metadata.terminating and not entry.gone:
                entry.deleted_uid = ""
                self._count("uid")

    def _has_made(self, owner_uid: str, write: Write | None) -> None:
        account = self._accounts.get(owner_uid)
        if account is not None and isinstance(write, Create) and write.member is not None:
            account.has_made(write.member)

    def _count(self, by: str) -> None:
        self._settled_by[by] = self._settled_by.get(by, 0) + 1


def _has_worked(entry: Entry[Any], stored: KubeObject | None) -> bool:
    """Whether the store shows what a lost create was to make: then it need not be repeated."""
    shown = effective(stored, entry)
    return (
        isinstance(entry.write, Create)
        and shown is not None
        and is_owned_by(shown.metadata, entry.writer)
    )


def _number(revision: str) -> int | None:
    """The revision as a number, None if it is opaque (then only live reads settle)."""
    return int(revision) if is_comparable(revision) else None
