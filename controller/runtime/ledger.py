"""The ledger of own writes: what this process did and its caches have not shown yet (DESIGN 4.3).

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
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from controller.kube.objects import KubeObject
from controller.runtime.overlay import Entry, Overlay, Reference, effective, is_newer
from controller.runtime.ownership import is_owned_by
from controller.runtime.timestamps import rfc3339
from informers.revisions import is_comparable, is_older

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from controller.kube.resources import Resource
    from controller.runtime.plan import Target, Write
    from informers.store import Lister

T = TypeVar("T", bound=KubeObject)

FIRST_LIVE_READ = 30.0
"""Seconds until the store's silence about an entry is answered by a live read."""

LONGEST_WAIT = 480.0
"""Live reads of the same entry are this many seconds apart at most; the distance doubles."""


@dataclass(frozen=True, slots=True)
class Owner:
    """On whose behalf something is written, and which key of which controller then wakes."""

    uid: str
    key: str
    controller: str

    @property
    def namespace(self) -> str:
        """Namespace of the owner, empty if it is cluster-scoped."""
        return self.key.rpartition("/")[0]


@dataclass(slots=True)
class _Account:
    """What the ledger keeps per owner."""

    owners: dict[str, Owner] = field(default_factory=dict[str, Owner])  # by controller
    namespace: str = ""
    entries: dict[Reference, None] = field(default_factory=dict[Reference, None])
    revisions: dict[Any, str] = field(default_factory=dict[Any, str])


@dataclass(frozen=True, slots=True)
class LedgerStatistics:
    """Numbers for metrics and tests."""

    entries: int
    pending: int
    unknown: int
    oldest_age: float
    in_question: int
    corrections: int
    live_reads: int
    settled_by: Mapping[str, int]


class Ledger:
    """Records writes, answers reads (`kind.Reads`), and finds out when an entry is settled.

    Synchronous throughout. An event costs O(1), an observation O(entries of its owner).

    Args:
        now: monotonic seconds.
        wall: the time of day, for deletion timestamps.
    """

    def __init__(self, *, now: Callable[[], float], wall: Callable[[], datetime]) -> None:
        self._now = now
        self._wall = wall
        self._overlays: dict[Resource[Any], Overlay[Any]] = {}
        self._accounts: dict[str, _Account] = {}
        self._uid_of: dict[tuple[str, str], str] = {}
        self._waiting: dict[tuple[Resource[Any], str], list[tuple[int, str]]] = {}
        self._selective: set[Resource[Any]] = set()
        self._eras: dict[Resource[Any], int] = {}
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
    ) -> None:
        """Read `resource` in `namespace` (empty: everywhere) from `cache`.

        `selective` says that a label selector filters it, so that an object may leave it alive.
        """
        self._overlay(resource).add_cache(namespace, cache, indexes)
        if selective:
            self._selective.add(resource)

    def advanced(self, resource: Resource[Any], namespace: str, revision: str) -> None:
        """The store of this scope has reached `revision`, contents first: settle up to there."""
        heap = self._waiting.get((resource, namespace))
        number = _number(revision)
        if not heap or number is None:
            return
        overlay = self._overlay(resource)
        while heap and heap[0][0] <= number:
            _, key = heapq.heappop(heap)
            entry = overlay.entry(key)
            if entry is not None:
                self._close(entry)

    def changed(self, resource: Resource[Any], key: str) -> None:
        """The store shows another state of this object: its entry may be settled."""
        entry = self._overlay(resource).entry(key)
        if entry is not None:
            self._close(entry)

    def vanished(self, resource: Resource[Any], last: KubeObject) -> None:
        """The store does not show this object any more; `last` is how it knew it.

        An object that was not terminating may have left the selector alive: it is kept until a
        live read has told (EXP-24).
        """
        reference = Reference(resource, last.metadata.key)
        entry = self.entry(reference)
        if entry is not None and (entry.obj is not None or entry.deleted_uid == last.metadata.uid):
            self._close(entry)
            return
        controller = last.metadata.controller
        if (
            resource in self._selective
            and not last.metadata.terminating
            and controller is not None
            and controller.uid in self._accounts
        ):
            entry = entry or Entry(reference)
            entry.obj = last
            self._attach(entry, controller.uid)
            self._touch(entry)
        if entry is not None:
            if entry.obj is not None or entry.doubt:
                self._question(entry)
            self._close(entry)

    def reset(self, resource: Resource[Any]) -> None:
        """The server's revisions went backwards: every entry is settled live (EXP-45)."""
        self._eras[resource] = self._eras.get(resource, 0) + 1
        for account in self._accounts.values():
            account.revisions.pop(resource, None)
        for entry in list(self._overlay(resource).entries()):
            self._question(entry)

    # -- owners -------------------------------------------------------------------------------

    def enter(self, owner: Owner) -> None:
        """Take note of an owner before it is observed; a namesake's account is closed (EXP-29)."""
        name = (owner.controller, owner.key)
        previous = self._uid_of.get(name)
        if previous is not None and previous != owner.uid:
            self.forget(owner.controller, owner.key)
        self._uid_of[name] = owner.uid
        account = self._accounts.setdefault(owner.uid, _Account(namespace=owner.namespace))
        account.owners[owner.controller] = owner

    def forget(self, controller: str, key: str) -> None:
        """The owner is gone: drop what was recorded for it (EXP-8)."""
        uid = self._uid_of.pop((controller, key), None)
        account = self._accounts.get(uid) if uid is not None else None
        if uid is None or account is None:
            return
        account.owners.pop(controller, None)
        if account.owners:
            return
        del self._accounts[uid]
        for reference in account.entries:
            entry = self.entry(reference)
            if entry is not None:
                entry.owners.pop(uid, None)
                self._close(entry)

    # -- writes -------------------------------------------------------------------------------

    def intend(self, owner: Owner, write: Write) -> None:
        """A request for `write` is about to be sent."""
        entry = self._entry(owner, write.target)
        entry.write, entry.unknown = write, False
        self._touch(entry)
        self._close(entry)

    def answered(self, owner: Owner, write: Write, obj: KubeObject) -> None:
        """The server carried out a create or a change and returned `obj`."""
        entry = self._answer(owner, write)
        self._remember(entry, obj)
        if entry.gone:
            entry.gone, entry.deleted_uid = False, ""
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

    def contradicted(self, owner: Owner, write: Write, obj: KubeObject | None) -> None:
        """A precondition of `write` failed; a live read found `obj`, or nothing (EXP-34)."""
        self._found(self._answer(owner, write), obj)

    # -- live reads ---------------------------------------------------------------------------

    def entry(self, reference: Reference) -> Entry[Any] | None:
        """The entry for an object, if there is one."""
        return self._overlay(reference.resource).entry(reference.key)

    def peek(self, target: Target) -> KubeObject | None:
        """What a reader is shown of the target, None also if nobody watches it."""
        overlay = self._overlay(target.resource)
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
        for uid in entry.owners:
            account = self._accounts.get(uid)
            for owner in account.owners.values() if account is not None else ():
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

    # -- reads: `kind.Reads` ------------------------------------------------------------------

    def get(self, resource: Resource[T], key: str) -> T | None:
        """The newest object known under `key`."""
        return self._overlay(resource).get(key)

    def by_index(self, resource: Resource[T], index: str, value: str) -> list[T]:
        """All newest objects whose index function gives `value`, in no particular order."""
        return self._overlay(resource).by_index(index, value)

    def revision(self, resource: Resource[Any], owner_uid: str) -> str:
        """Newest revision observed, of the store or of an answer; it never comes back.

        After a reset of the server's revisions it carries the number of the reset in front.
        """
        account = self._accounts.get(owner_uid)
        namespace = account.namespace if account is not None else ""
        newest = self._overlay(resource).cache_of(namespace).resource_version
        if account is not None:
            known = account.revisions.get(resource, "")
            if is_older(newest, known):
                newest = known
            account.revisions[resource] = newest
        era = self._eras.get(resource, 0)
        return f"{era}.{newest}" if era else newest

    def unsettled_scopes(self, owner_uid: str) -> frozenset[str]:
        """Scopes of this owner with a write of unknown outcome or a blocking doubt."""
        return frozenset(entry.scope for entry in self._unsettled(owner_uid))

    def unsettled_resources(self, owner_uid: str) -> frozenset[Resource[Any]]:
        """Resources of the writes that `unsettled_scopes` is about."""
        return frozenset(entry.reference.resource for entry in self._unsettled(owner_uid))

    def is_taken(self, resource: Resource[Any], key: str) -> bool:
        """Whether a create met somebody else's object of this name."""
        entry = self._overlay(resource).entry(key)
        return entry is not None and entry.taken

    def looked_up_absent(self, resource: Resource[Any], key: str) -> bool:
        """Whether a lookup found nothing under this name."""
        entry = self._overlay(resource).entry(key)
        return entry is not None and entry.absent

    def doubts(self, owner_uid: str) -> tuple[str, ...]:
        """Sentences about this owner's objects that are not as they should be, sorted."""
        sentences: list[str] = []
        for entry in self._entries_of(owner_uid):
            if entry.kept:
                sentences.append(f"{entry.reference} exists but is not in the watched selection")
            if entry.doubt:
                sentences.append(entry.doubt)
        return tuple(sorted(sentences))

    # -- numbers ------------------------------------------------------------------------------

    def statistics(self) -> LedgerStatistics:
        """Numbers for metrics and tests; O(entries)."""
        entries = [e for overlay in self._overlays.values() for e in overlay.entries()]
        pending = [e for e in entries if e.obj is not None or e.deleted_uid or e.write]
        now = self._now()
        return LedgerStatistics(
            entries=len(entries),
            pending=len(pending),
            unknown=sum(1 for e in entries if e.unknown),
            oldest_age=max((now - e.since for e in pending), default=0.0),
            in_question=sum(1 for e in entries if e.in_question),
            corrections=sum(overlay.corrections for overlay in self._overlays.values()),
            live_reads=self._live_reads,
            settled_by=dict(self._settled_by),
        )

    # -- inside -------------------------------------------------------------------------------

    def _overlay(self, resource: Resource[T]) -> Overlay[T]:
        overlay = self._overlays.get(resource)
        if overlay is None:
            overlay = self._overlays[resource] = Overlay(resource)
        return overlay

    def _entry(self, owner: Owner, target: Target) -> Entry[Any]:
        reference = Reference(target.resource, target.key)
        entry = self.entry(reference) or Entry(reference)
        entry.writer, entry.scope = owner.uid, target.scope
        self._attach(entry, owner.uid)
        return entry

    def _attach(self, entry: Entry[Any], owner_uid: str) -> None:
        account = self._accounts.get(owner_uid)
        if account is not None:
            account.entries[entry.reference] = None
            entry.owners[owner_uid] = None

    def _entries_of(self, owner_uid: str) -> list[Entry[Any]]:
        account = self._accounts.get(owner_uid)
        if account is None:
            return []
        found = (self.entry(reference) for reference in account.entries)
        return [entry for entry in found if entry is not None]

    def _unsettled(self, owner_uid: str) -> list[Entry[Any]]:
        return [
            entry
            for entry in self._entries_of(owner_uid)
            if entry.writer == owner_uid and (entry.write is not None or entry.blocking)
        ]

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
            scope = self._overlay(reference.resource).scope_of(reference.namespace)
            heap = self._waiting.setdefault((reference.resource, scope), [])
            heapq.heappush(heap, (number, reference.key))

    def _note_revision(self, entry: Entry[Any], obj: KubeObject) -> None:
        resource, revision = entry.reference.resource, obj.metadata.resource_version
        for uid in entry.owners:
            revisions = self._accounts[uid].revisions
            known = revisions.get(resource)
            if known is None or is_older(known, revision):
                revisions[resource] = revision

    def _mark_deleted(self, entry: Entry[Any], uid: str, *, gone: bool) -> None:
        entry.deleted_uid = uid
        entry.deleted_at = rfc3339(self._wall())
        entry.gone = gone
        if gone and entry.obj is not None and entry.obj.metadata.uid == uid:
            entry.obj, entry.kept = None, False

    def _found(self, entry: Entry[Any], obj: KubeObject | None) -> None:
        """Put what a live read found into the entry."""
        overlay = self._overlay(entry.reference.resource)
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
        overlay = self._overlay(entry.reference.resource)
        if not overlay.covers(entry.reference.namespace):
            return False
        revision = overlay.cache_of(entry.reference.namespace).resource_version
        passed = bool(revision) and not is_older(revision, obj.metadata.resource_version)
        return passed and overlay.stored(entry.reference) is None

    def _close(self, entry: Entry[Any]) -> None:
        """Judge an entry after a change, and drop it if nothing is left to remember."""
        overlay = self._overlay(entry.reference.resource)
        if overlay.covers(entry.reference.namespace):
            self._judge(entry, overlay.stored(entry.reference))
        else:
            entry.obj, entry.deleted_uid = None, ""
        if entry.owners and not entry.settled:
            overlay.put(entry)
            return
        overlay.drop(entry.reference.key)
        for uid in entry.owners:
            self._accounts[uid].entries.pop(entry.reference, None)

    def _judge(self, entry: Entry[Any], stored: KubeObject | None) -> None:
        """Settle what the store settles; question what it cannot (EXP-22)."""
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

    def _count(self, by: str) -> None:
        self._settled_by[by] = self._settled_by.get(by, 0) + 1


def _number(revision: str) -> int | None:
    """The revision as a number, None if it is opaque (then only live reads settle)."""
    return int(revision) if is_comparable(revision) else None
