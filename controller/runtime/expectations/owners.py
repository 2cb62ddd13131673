"""Indexes expectations by the owner on whose behalf objects were written.

An owner is one object with one uid. A later object of the same name has a state of its own; the
state of an owner that no longer exists is dropped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from controller.runtime.plan import Create, Delete
from informers import is_older

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from controller.kube.resources import Resource
    from controller.runtime.expectations.overlay import Expectation, ObjectReference
    from controller.runtime.kind import FailedCreate, LogText
    from controller.runtime.plan import LiveList, LogTail, ReplicaMember, Write


K = TypeVar("K")
V = TypeVar("V")

MAX_INCOMPLETE_REPLICAS: Final = 1024
"""Maximum incomplete replicas kept for one owner, more than any plan creates at once. The oldest,
which failed half-way, are discarded first."""

MAX_REFUTED: Final = 64
"""Refuted changes kept for one owner; the oldest is discarded first, and read live once more."""

MAX_DISOWNED: Final = 1024
"""Disowned objects kept for one owner; the oldest is discarded first."""

MAX_LOG_TAILS: Final = 8
"""Log tails kept for one owner; the oldest is discarded first."""


def keep_newest(kept: dict[K, V], key: K, value: V, most: int) -> None:
    """Keep a value as the newest one; of more than `most`, discard the oldest."""
    kept.pop(key, None)
    kept[key] = value
    if len(kept) > most:
        del kept[next(iter(kept))]


@dataclass(frozen=True, slots=True)
class Owner:
    """The object on whose behalf something is written, and its key in its controller's queue."""

    uid: str
    key: str
    controller: str
    terminating: bool = False
    generation: int = 0

    @property
    def namespace(self) -> str:
        """Namespace of the owner, empty if it is cluster-scoped."""
        return self.key.rpartition("/")[0]


@dataclass(slots=True)
class OwnerState:
    """The records of one owner.

    Attributes:
        owners: the same object as each controller knows it, by controller.
        refuted: revisions of objects at which a live read found that a change was not carried out.
        disowned: objects that others gave another owner after they were created for this one.
        revisions: newest revision observed of each resource.
        lists: live lists that succeeded; nothing of their resource was created since.
        logs: tails of logs that were read.
        incomplete_replicas: created members of each replica that is not complete yet.
        memory: the `Plan.memory` that the next plan reads.
        created: objects that were created since the plan that left the memory.
    """

    namespace: str
    owners: dict[str, Owner] = field(default_factory=dict[str, Owner])
    expectations: dict[ObjectReference, None] = field(default_factory=dict["ObjectReference", None])
    refuted: dict[ObjectReference, str] = field(default_factory=dict["ObjectReference", str])
    disowned: dict[ObjectReference, None] = field(default_factory=dict["ObjectReference", None])
    revisions: dict[Resource[Any], str] = field(default_factory=dict["Resource[Any]", str])
    lists: set[LiveList] = field(default_factory=set["LiveList"])
    logs: dict[LogTail, LogText] = field(default_factory=dict["LogTail", "LogText"])
    failed_creates: dict[str, FailedCreate] = field(default_factory=dict[str, "FailedCreate"])
    incomplete_replicas: dict[str, int] = field(default_factory=dict[str, int])
    memory: Any = None
    created: dict[Resource[Any], list[Any]] = field(
        default_factory=dict["Resource[Any]", "list[Any]"]
    )

    def observe_revision(self, resource: Resource[Any], revision: str) -> str:
        """Return the newest revision observed, this one included; it never goes back."""
        known = self.revisions.get(resource)
        if known is None or is_older(known, revision):
            self.revisions[resource] = known = revision
        return known

    def refute(self, reference: ObjectReference, revision: str) -> None:
        """Record that a change of the object at this revision was not carried out."""
        keep_newest(self.refuted, reference, revision, MAX_REFUTED)

    def disown(self, reference: ObjectReference) -> None:
        """Record that others gave the object another owner."""
        keep_newest(self.disowned, reference, None, MAX_DISOWNED)

    def will_create(self, resource: Resource[Any]) -> None:
        """Forget live lists of `resource`, of which an object is about to be created."""
        self.lists = {known for known in self.lists if known.resource is not resource}

    def keep_log(self, lookup: LogTail, text: LogText) -> None:
        """Keep the result of a lookup."""
        keep_newest(self.logs, lookup, text, MAX_LOG_TAILS)

    def keep_failed_create(self, uid: str, found: FailedCreate) -> None:
        """Keep what the events of the object with this uid say."""
        keep_newest(self.failed_creates, uid, found, MAX_LOG_TAILS)

    def remember(self, memory: Any) -> None:
        """Store the memory of a plan that is about to be carried out."""
        self.memory = memory
        self.created.clear()

    def record_created(self, resource: Resource[Any], obj: Any) -> None:
        """Record a created object, unless the plans of this owner use no memory."""
        if self.memory is not None:
            self.created.setdefault(resource, []).append(obj)

    def record_member(self, member: ReplicaMember) -> None:
        """Record a member of a replica; forget the replica when it is complete."""
        replicas, count = self.incomplete_replicas, member.position + 1
        if count < member.size:
            keep_newest(replicas, member.replica, count, MAX_INCOMPLETE_REPLICAS)
        else:
            replicas.pop(member.replica, None)


class OwnerIndex:
    """All owners for which anything is recorded."""

    def __init__(self) -> None:
        self._by_uid: dict[str, OwnerState] = {}
        self._uid_of: dict[tuple[str, str], str] = {}

    def add(self, owner: Owner) -> list[ObjectReference]:
        """Add an owner and remove an earlier one of the same name.

        Returns:
            The objects with expectations of the removed owner.
        """
        name = (owner.controller, owner.key)
        known = self._uid_of.get(name) == owner.uid
        released = [] if known else self.remove(owner.controller, owner.key)
        self._uid_of[name] = owner.uid
        state = self._by_uid.setdefault(owner.uid, OwnerState(owner.namespace))
        state.owners[owner.controller] = owner
        return released

    def remove(self, controller: str, key: str) -> list[ObjectReference]:
        """Remove an owner that no longer exists, unless another controller still has it.

        Returns:
            The objects with expectations of the removed owner.
        """
        name = (controller, key)
        if name not in self._uid_of:
            return []
        uid = self._uid_of.pop(name)
        state = self._by_uid[uid]
        del state.owners[controller]
        if state.owners:
            return []
        del self._by_uid[uid]
        return list(state.expectations)

    def get(self, uid: str) -> OwnerState | None:
        """Return the state of the owner with that uid, None if it is unknown."""
        return self._by_uid.get(uid)

    def state(self, uid: str) -> OwnerState:
        """Return the same, and one that nobody keeps if the owner is unknown."""
        return self._by_uid.get(uid) or OwnerState("")

    def find(self, uids: Iterable[str]) -> list[OwnerState]:
        """Return the states of those owners that are known."""
        found = (self._by_uid.get(uid) for uid in uids)
        return [state for state in found if state is not None]

    def all(self) -> Collection[OwnerState]:
        """Return the states of all owners."""
        return self._by_uid.values()


# What the caches cannot tell, so that the owner's next reconcile has to find it out.


@dataclass(frozen=True, slots=True)
class Questions:
    """What an owner must find out.

    Attributes:
        repeats: creates and deletes of unknown outcome, which are sent again.
        reads: objects that are to be read live now.
        wait: seconds until the next one is, None if the caches can tell all that is left.
    """

    repeats: tuple[Write, ...] = ()
    reads: tuple[ObjectReference, ...] = ()
    wait: float | None = None


def questions(
    owner: Owner,
    expectations: Iterable[Expectation[Any]],
    next_live_read: Callable[[Expectation[Any]], float],
) -> Questions:
    """Return what an owner must find out about these expectations.

    `next_live_read` tells the seconds until an object must be read live; zero or less means now.
    """
    repeats: list[Write] = []
    reads: list[ObjectReference] = []
    wait = math.inf
    for each in expectations:
        if each.write is not None and not each.outcome_unknown:
            continue  # in flight
        if each.write is not None and _may_be_repeated(owner, each):
            repeats.append(each.write)
            continue
        rest = next_live_read(each)
        if rest <= 0:
            reads.append(each.reference)
        else:
            wait = min(wait, rest)
    return Questions(tuple(repeats), tuple(reads), wait if wait < math.inf else None)


def is_repetition(owner: Owner, write: Write, expectation: Expectation[Any]) -> bool:
    """Return whether a planned write is one that is sent again anyway."""
    if expectation.unknown_since is None or not _may_be_repeated(owner, expectation):
        return False
    match write, expectation.write:
        case Create(), Create():
            return True
        case Delete(), Delete():
            return write.uid == expectation.write.uid
        case _:
            return False


def _may_be_repeated(owner: Owner, expectation: Expectation[Any]) -> bool:
    """Return whether this owner sends the write again if its outcome is unknown.

    Nothing is created for a terminating owner, and what was to be deleted for another
    generation may be wanted by now. A deleted object that the store no longer shows is read live,
    like any object that has left the store (EXP-24). Changes are read and planned anew.
    """
    if expectation.writer != owner.uid:
        return False
    match expectation.write:
        case Create():
            return not owner.terminating
        case Delete():
            same = expectation.generation == owner.generation
            return same and not expectation.needs_live_read
        case _:
            return False
