"""What the process remembers of one object of a kind: its writes, and what live reads found.

An owner is one object with one uid. A later object of the same name has a record of its own; the
record of an owner that no longer exists is dropped.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from controller.kube.resources import Resource
from controller.runtime.expectations.expectation import Expectation, ObjectReference
from controller.runtime.kind import CreateError, FailedCreate, LogText
from controller.runtime.plan import Create, Delete, Failure, LiveList, LogTail, ReplicaMember, Write
from informers import is_older

K = TypeVar("K")
V = TypeVar("V")

MAX_NAMES: Final = 1024
"""Incomplete replicas kept for one owner, and disowned objects, and create errors: more than any
plan creates at once. The oldest are discarded first."""

MAX_REFUTED: Final = 64
"""Refuted changes kept for one owner; the oldest is discarded first, and read live once more."""

MAX_LOG_TAILS: Final = 8
"""Log tails kept for one owner; the oldest is discarded first."""

UNKNOWN_OVERDUE = 5.0
"""Seconds after its request at which a write of unknown outcome is reported as a failure."""


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


@dataclass(frozen=True, slots=True)
class Questions:
    """What the caches cannot tell, so that the owner's next reconcile has to find it out.

    Attributes:
        repeats: creates and deletes of unknown outcome, which are sent again.
        reads: objects that are to be read live now.
        wait: seconds until the next one is, None if the caches can tell all that is left.
    """

    repeats: tuple[Write, ...] = ()
    reads: tuple[ObjectReference, ...] = ()
    wait: float | None = None


@dataclass(slots=True)
class Record:
    """The record of one owner.

    Attributes:
        owner: the owner as it was seen last.
        expectations: its objects that the caches do not show yet as they were written.
        refuted: revisions of objects at which a live read found that a change was not carried out.
        disowned: objects that others gave another owner after they were created for this one.
        create_errors: the last error of each create, until one under that name succeeds.
        revisions: newest revision observed of each resource.
        lists: live lists that succeeded; nothing of their resource was created since.
        logs: tails of logs that were read.
        failed_creates: what the events of objects say, by uid.
        replicas: created members of each replica that is not complete yet.
        memory: the `Plan.memory` of the last plan that had one, None if there is none.
        made: objects that were created since the plan that left the memory.
        execution: what the executions of its plans leave for the next one, None before the first.
    """

    owner: Owner
    expectations: dict[ObjectReference, Expectation[Any]] = field(
        default_factory=dict[ObjectReference, "Expectation[Any]"]
    )
    refuted: dict[ObjectReference, str] = field(default_factory=dict[ObjectReference, str])
    disowned: dict[ObjectReference, None] = field(default_factory=dict[ObjectReference, None])
    create_errors: dict[ObjectReference, CreateError] = field(
        default_factory=dict[ObjectReference, "CreateError"]
    )
    revisions: dict[Resource[Any], str] = field(default_factory=dict["Resource[Any]", str])
    lists: set[LiveList] = field(default_factory=set["LiveList"])
    logs: dict[LogTail, LogText] = field(default_factory=dict["LogTail", "LogText"])
    failed_creates: dict[str, FailedCreate] = field(default_factory=dict[str, "FailedCreate"])
    replicas: dict[str, int] = field(default_factory=dict[str, int])
    memory: Any = None
    made: dict[Resource[Any], list[Any]] = field(default_factory=dict["Resource[Any]", "list[Any]"])
    execution: Any = None

    # -- what a plan depends on ---------------------------------------------------------------

    @property
    def pending_scopes(self) -> frozenset[str]:
        """Scopes with a write of unknown outcome: create and delete nothing there.

        The runtime resolves the outcome and then enqueues the key.
        """
        return frozenset(each.scope for each in self._pending() if not each.presumed_failed)

    @property
    def pending_resources(self) -> frozenset[Resource[Any]]:
        """Resources of the writes in `pending_scopes`."""
        return frozenset(each.reference.resource for each in self._pending())

    @property
    def consistency_warnings(self) -> tuple[str, ...]:
        """Sentences about objects that differ from what was written."""
        sentences: list[str] = []
        for each in self.expectations.values():
            if each.live_only:
                words = f"{each.reference} exists but is not in the watched selection"
                if not (each.name_conflict or each.warning):
                    words += "; put back the labels that the operator gave it, or delete it"
                sentences.append(words)
            if each.warning:
                sentences.append(each.warning)
        return tuple(sorted(sentences))

    def has_name_conflict(self, resource: Resource[Any], key: str) -> bool:
        """Return whether a create met an object of this name that belongs to another owner."""
        found = self.expectations.get(ObjectReference(resource, key))
        return found is not None and found.name_conflict

    def name_conflicts(self, resource: Resource[Any]) -> frozenset[str]:
        """Return the names under which a create met an object of another owner."""
        return frozenset(
            reference.name
            for reference, each in self.expectations.items()
            if each.name_conflict and reference.resource is resource
        )

    def looked_up_absent(self, resource: Resource[Any], key: str) -> bool:
        """Return whether a `Lookup` found nothing under this name."""
        found = self.expectations.get(ObjectReference(resource, key))
        return found is not None and found.absent

    def create_error(self, resource: Resource[Any], key: str) -> CreateError | None:
        """Return the last error of a create under this name, None after one has succeeded."""
        return self.create_errors.get(ObjectReference(resource, key))

    def has_listed(self, lookup: LiveList) -> bool:
        """Return whether that list succeeded and nothing of its resource was created since."""
        return lookup in self.lists

    def log_tail(self, lookup: LogTail) -> LogText | None:
        """Return the result of that lookup, None before it was made."""
        return self.logs.get(lookup)

    def failed_create(self, uid: str) -> FailedCreate | None:
        """Return what the events of an object said when they were read last; None before."""
        return self.failed_creates.get(uid)

    @property
    def incomplete_replicas(self) -> dict[str, int]:
        """Replicas that this process is creating, with their numbers of members."""
        return dict(self.replicas)

    def created(self, resource: Resource[Any]) -> tuple[Any, ...]:
        """Return objects created since the plan that left the memory; some may be gone."""
        return tuple(self.made.get(resource, ()))

    # -- what an execution depends on ---------------------------------------------------------

    def questions(self, now: float) -> Questions:
        """Return what the next reconcile must find out; O(its expectations)."""
        repeats: list[Write] = []
        reads: list[ObjectReference] = []
        wait = math.inf
        for reference, each in self.expectations.items():
            in_flight = each.write is not None and not each.outcome_unknown
            if in_flight or each.asked_by != self.owner.uid:
                continue
            if each.write is not None and self._may_repeat(each):
                repeats.append(each.write)
            elif (rest := each.next_live_read(now)) <= 0:
                reads.append(reference)
            else:
                wait = min(wait, rest)
        return Questions(tuple(repeats), tuple(reads), wait if wait < math.inf else None)

    def is_repetition(self, write: Write) -> bool:
        """Return whether this write is sent again anyway, because its outcome is unknown."""
        found = self.expectations.get(ObjectReference(write.target.resource, write.target.key))
        if found is None or found.unknown_since is None or not self._may_repeat(found):
            return False
        match write, found.write:
            case Create(), Create():
                return True
            case Delete(), Delete():
                return write.uid == found.write.uid
            case _:
                return False

    def is_refuted(self, write: Write) -> bool:
        """Return whether a live read after such a change found the store's state."""
        reference = ObjectReference(write.target.resource, write.target.key)
        found = self.expectations.get(reference)
        if found is None or isinstance(write, Create | Delete):
            return False
        return self.refuted.get(reference) == found.tried_at

    def is_disowned(self, write: Write) -> bool:
        """Return whether others gave the last object that was created so another owner."""
        reference = ObjectReference(write.target.resource, write.target.key)
        return isinstance(write, Create) and reference in self.disowned

    def overdue_failures(self, now: float) -> tuple[Failure, ...]:
        """Return the writes whose outcome has been unknown for some time."""
        return tuple(
            replace(failure, overdue=True)
            for each in self.expectations.values()
            if each.writer == self.owner.uid
            and each.unknown_since is not None
            and now - each.unknown_since >= UNKNOWN_OVERDUE
            and (failure := each.unknown_failure) is not None
        )

    # -- changes ------------------------------------------------------------------------------

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
        keep_newest(self.disowned, reference, None, MAX_NAMES)

    def record_create_error(self, write: Create, error: CreateError) -> None:
        """Record a rejected create; planners read the reason from `create_error`."""
        reference = ObjectReference(write.target.resource, write.target.key)
        keep_newest(self.create_errors, reference, error, MAX_NAMES)

    def will_create(self, resource: Resource[Any]) -> None:
        """Forget live lists of `resource`, of which an object is about to be created."""
        self.lists = {known for known in self.lists if known.resource is not resource}

    def keep_log(self, lookup: LogTail, text: LogText) -> None:
        """Keep the tail of a log, or that it is unavailable."""
        keep_newest(self.logs, lookup, text, MAX_LOG_TAILS)

    def keep_failed_create(self, uid: str, found: FailedCreate) -> None:
        """Keep what the events of the object with this uid say."""
        keep_newest(self.failed_creates, uid, found, MAX_LOG_TAILS)

    def remember(self, memory: Any) -> None:
        """Store the memory of a plan that is about to be carried out."""
        self.memory = memory
        self.made.clear()

    def record_created(self, resource: Resource[Any], obj: Any) -> None:
        """Record a created object, unless the plans of this owner use no memory."""
        if self.memory is not None:
            self.made.setdefault(resource, []).append(obj)

    def record_member(self, member: ReplicaMember) -> None:
        """Record a member of a replica; forget the replica when it is complete."""
        count = member.position + 1
        if count < member.size:
            keep_newest(self.replicas, member.replica, count, MAX_NAMES)
        else:
            self.replicas.pop(member.replica, None)

    def _pending(self) -> Iterator[Expectation[Any]]:
        for each in self.expectations.values():
            if each.writer == self.owner.uid and (each.write is not None or each.blocking):
                yield each

    def _may_repeat(self, expectation: Expectation[Any]) -> bool:
        """Return whether the write is sent again if its outcome is unknown.

        Nothing is created for a terminating owner, and what was to be deleted for another
        generation may be wanted by now. A deleted object that the store no longer shows is read
        live, like any object that has left the store (EXP-24). Changes are read and planned anew.
        """
        if expectation.writer != self.owner.uid:
            return False
        match expectation.write:
            case Create():
                return not self.owner.terminating
            case Delete():
                same = expectation.generation == self.owner.generation
                return same and not expectation.needs_live_read
            case _:
                return False
