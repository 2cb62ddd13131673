"""What the process remembers of one object of a kind: its writes, and what live reads found.

An owner is one object with one uid. A later object of the same name has a record of its own; the
record of an owner that no longer exists is dropped.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from controller.apimachinery.metadata import is_owned_by, owner_uid, requested_owner
from controller.kube.objects import KubeObject
from controller.kube.resources import Resource
from controller.runtime.expectation import (
    ABSENT,
    TAKEN,
    Expectation,
    Finding,
    ObjectReference,
    Outside,
    Questions,
    UnansweredWrite,
    effective,
    reference_of,
    revision_of,
)
from controller.runtime.failed_groups import FailedGroups, Group
from controller.runtime.kind import CreateError, FailedCreate, LogText
from controller.runtime.plan import Create, Delete, Failure, LiveList, LogTail, Write
from controller.runtime.repairs import Repairs
from controller.runtime.status import StatusHistory
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

FIRST_LIVE_READ = 30.0
"""Seconds after which an expectation that the store has not satisfied is read live."""

NOT_REPEATED = 120.0
"""Seconds after which the object of a change that is presumed to have failed is read live, longer
than the back-off after which its owner repeats it."""

OUTSIDE_INTERVAL = 30.0
"""Seconds between two live reads of objects of one owner that have left the watched selection."""

MOST_OUTSIDE = 16
"""Number of such objects of an owner from which on each is read as often as all others."""

MAX_LIVE_READ_INTERVAL = 480.0
"""Maximum seconds between two live reads of one expectation; the interval doubles each time."""


class Newest(dict[K, V]):
    """A dictionary that keeps what was set last, at most so many values."""

    __slots__ = ("_most",)  # each record has six

    def __init__(self, most: int) -> None:
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:  # noqa: D105
        self.pop(key, None)
        super().__setitem__(key, value)
        if len(self) > self._most:
            del self[next(iter(self))]


class Owner(Struct, frozen=True):
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
class Record:
    """The record of one owner.

    Attributes:
        expectations: its objects that the caches do not show yet as they were written.
        writes: its writes to them without an answer.
        findings: what it has found out about their names.
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
        status: when its status was written.
        widths: number of writes at once that the slow start reached, between two batches of a plan.
        failed_groups: writes that keep failing, None if none do.
        repairs: fields that other writers change back.
        refusals: the last refusal of each part of the object itself, without what varies.
        held: what was last reported of children that others hold, empty if none are.
    """

    owner: Owner
    expectations: dict[ObjectReference, Expectation[Any]] = field(
        default_factory=dict[ObjectReference, Expectation[Any]]
    )
    writes: dict[ObjectReference, UnansweredWrite] = field(
        default_factory=dict[ObjectReference, UnansweredWrite]
    )
    findings: dict[ObjectReference, Finding] = field(default_factory=dict[ObjectReference, Finding])
    refuted: dict[ObjectReference, str] = field(default_factory=lambda: Newest(MAX_REFUTED))
    disowned: dict[ObjectReference, None] = field(default_factory=lambda: Newest(MAX_NAMES))
    create_errors: dict[ObjectReference, CreateError] = field(
        default_factory=lambda: Newest(MAX_NAMES)
    )
    revisions: dict[Resource[Any], str] = field(default_factory=dict["Resource[Any]", str])
    lists: set[LiveList] = field(default_factory=set["LiveList"])
    logs: dict[LogTail, LogText] = field(default_factory=lambda: Newest(MAX_LOG_TAILS))
    failed_creates: dict[str, FailedCreate] = field(default_factory=lambda: Newest(MAX_LOG_TAILS))
    replicas: dict[str, int] = field(default_factory=lambda: Newest(MAX_NAMES))
    memory: Any = None
    made: dict[Resource[Any], list[Any]] = field(default_factory=dict["Resource[Any]", "list[Any]"])
    status: StatusHistory = field(default_factory=StatusHistory)
    widths: Mapping[Group, int] = field(default_factory=dict["Group", int])
    failed_groups: FailedGroups | None = None
    repairs: Repairs = field(default_factory=Repairs)
    refusals: dict[str, str] = field(default_factory=dict[str, str])
    held: str = ""

    # -- what a plan depends on ---------------------------------------------------------------

    @property
    def pending_scopes(self) -> frozenset[str]:
        """Scopes with a write of unknown outcome: create and delete nothing there.

        The runtime resolves the outcome and then enqueues the key.
        """
        unknown = {
            each.write.target.scope
            for reference, each in self.writes.items()
            if not self.is_presumed_failed(reference)
        }
        blocked = {each.blocks for each in self.findings.values() if each.blocks is not None}
        return frozenset(unknown | blocked)

    @property
    def pending_resources(self) -> frozenset[Resource[Any]]:
        """Resources of the writes without an answer."""
        return frozenset(each.resource for each in self.writes)

    @property
    def consistency_warnings(self) -> tuple[str, ...]:
        """Sentences about objects that differ from what was written."""
        sentences = [each.warning for each in self.findings.values() if each.warning]
        for reference, each in self.expectations.items():
            if isinstance(each.entry, Outside):
                words = f"{reference} exists but is not in the watched selection"
                if self.findings.get(reference, ABSENT) is ABSENT:
                    words += "; put back the labels that the operator gave it, or delete it"
                sentences.append(words)
        return tuple(sorted(sentences))

    def has_name_conflict(self, resource: Resource[Any], key: str) -> bool:
        """Return whether a create met an object of this name that belongs to another owner."""
        return self.findings.get(ObjectReference(resource, key)) is TAKEN

    def name_conflicts(self, resource: Resource[Any]) -> frozenset[str]:
        """Return the names under which a create met an object of another owner."""
        return frozenset(
            reference.name
            for reference, each in self.findings.items()
            if each is TAKEN and reference.resource is resource
        )

    def looked_up_absent(self, resource: Resource[Any], key: str) -> bool:
        """Return whether a `Lookup` found nothing under this name."""
        return self.findings.get(ObjectReference(resource, key)) is ABSENT

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
        """Return what the events of that object said of a refused create, None before a lookup."""
        return self.failed_creates.get(uid)

    def created(self, resource: Resource[Any]) -> tuple[Any, ...]:
        """Return objects created since the plan that left the memory; some may be gone."""
        return tuple(self.made.get(resource, ()))

    # -- what an execution depends on ---------------------------------------------------------

    def questions(self, now: float) -> Questions:
        """Return what the next reconcile must find out; O(its expectations).

        Who has written finds out about it, or else the owner that is known first.
        """
        repeats: list[Write] = []
        reads: list[ObjectReference] = []
        wait = math.inf
        for reference, each in self.expectations.items():
            own, unanswered = self.writes.get(reference), each.unanswered
            if any(write.in_flight for write in unanswered):
                continue
            if own is None and (unanswered or self is not next(iter(each.owners.values()))):
                continue
            if own is not None and self._may_repeat(own, each):
                repeats.append(own.write)
            elif (rest := self.next_live_read(each, now)) <= 0:
                reads.append(reference)
            else:
                wait = min(wait, rest)
        return Questions(tuple(repeats), tuple(reads), wait if wait < math.inf else None)

    def next_live_read(self, expectation: Expectation[Any], now: float) -> float:
        """Return the seconds until the object must be read live; zero or less means now."""
        reference = expectation.reference
        if expectation.needs_live_read:
            return 0.0
        if self.is_presumed_failed(reference):
            interval = NOT_REPEATED
        elif reference in self.writes:
            return 0.0
        elif isinstance(expectation.entry, Outside):
            known = self.expectations.values()
            outside = sum(isinstance(each.entry, Outside) for each in known)
            interval = OUTSIDE_INTERVAL * min(outside, MOST_OUTSIDE)
        else:
            interval = min(FIRST_LIVE_READ * 2**expectation.live_reads, MAX_LIVE_READ_INTERVAL)
        return expectation.changed_at + interval - now

    def is_presumed_failed(self, reference: ObjectReference) -> bool:
        """Return whether a change of unknown outcome was probably not carried out.

        A live read has found so before, and the store still shows the same revision. The owner may
        repeat it without another live read.
        """
        known, expectation = self.writes.get(reference), self.expectations.get(reference)
        if known is None or expectation is None or known.in_flight or known.failure is None:
            return False
        is_unchanged = known.tried_at == expectation.shown and not expectation.needs_live_read
        return is_unchanged and self.is_refuted(known.write)

    def is_repetition(self, write: Write) -> bool:
        """Return whether this write is sent again anyway, because its outcome is unknown."""
        reference = reference_of(write.target)
        known = self.writes.get(reference)
        if known is None or known.unknown_since is None:
            return False
        match write, known.write:
            case Create(), Create():
                is_same = True
            case Delete(), Delete():
                is_same = write.uid == known.write.uid
            case _:
                is_same = False
        return is_same and self._may_repeat(known, self.expectations[reference])

    def is_refuted(self, write: Write) -> bool:
        """Return whether a live read after such a change found the store's state."""
        reference = reference_of(write.target)
        known = self.writes.get(reference)
        if known is None or isinstance(write, Create | Delete):
            return False
        return self.refuted.get(reference) == known.tried_at

    def is_disowned(self, write: Write) -> bool:
        """Return whether others gave the last object that was created so another owner."""
        reference = reference_of(write.target)
        return isinstance(write, Create) and reference in self.disowned

    def overdue_failures(self, now: float) -> tuple[Failure, ...]:
        """Return the writes whose outcome has been unknown for some time."""
        return tuple(
            replace(each.failure, overdue=True)
            for each in self.writes.values()
            if each.unknown_since is not None
            and now - each.unknown_since >= UNKNOWN_OVERDUE
            and each.failure is not None
        )

    # -- changes ------------------------------------------------------------------------------

    def observe_revision(self, resource: Resource[Any], revision: str) -> str:
        """Return the newest revision observed, this one included; it never goes back."""
        known = self.revisions.get(resource)
        if known is None or is_older(known, revision):
            self.revisions[resource] = known = revision
        return known

    def sent(self, reference: ObjectReference, write: Write, tried_at: str, now: float) -> None:
        """Record a write whose request is about to be sent, perhaps once more."""
        known = self.writes.get(reference)
        if known is None or known.unknown_since is None:
            known = UnansweredWrite(write, self.owner.generation, now, tried_at)
        else:
            known = replace(known, write=write, asked_at=now, tried_at=tried_at, in_flight=True)
        self.writes[reference] = known
        if isinstance(write, Create):  # what was listed before lacks the object
            resource = reference.resource
            self.lists = {known for known in self.lists if known.resource is not resource}

    def answer_lost(
        self, reference: ObjectReference, write: Write, failure: Failure | None, now: float
    ) -> None:
        """Record that the outcome of a write is unknown."""
        known = self.writes.get(reference)
        if known is None:
            known = UnansweredWrite(write, self.owner.generation, now, "")
        self.writes[reference] = replace(
            known, write=write, in_flight=False, unknown_since=known.since, failure=failure
        )

    def settle(self, expectation: Expectation[Any], stored: KubeObject | None) -> bool:
        """Forget a write of unknown outcome if it was carried out, and return whether it was.

        The store shows no delete as long as it shows the object unchanged since the request was
        sent (EXP-22).
        """
        known = self.writes.get(expectation.reference)
        if known is None or known.in_flight:
            return False
        shown = effective(stored, expectation.entry)
        match known.write:
            case Create():
                is_done = shown is not None and is_owned_by(shown.metadata, self.owner.uid)
            case Delete(uid=uid) if revision_of(stored) != known.tried_at:
                is_same = shown is not None and shown.metadata.uid == uid
                is_done = not is_same or (shown is not None and shown.metadata.terminating)
            case _:
                is_done = False
        if is_done:
            self._created(known.write)
            del self.writes[expectation.reference]
        return is_done

    def done(
        self, reference: ObjectReference, write: Write, obj: KubeObject, *, created: bool
    ) -> None:
        """Record the object that the server returned for a create or a change."""
        self.refuted.pop(reference, None)
        self.create_errors.pop(reference, None)
        if self.findings.get(reference) in {ABSENT, TAKEN}:
            del self.findings[reference]
        self._created(write)
        if created:
            if self.memory is not None:
                self.made.setdefault(reference.resource, []).append(obj)
            self.disowned.pop(reference, None)
            if _has_other_owner(write, obj):
                self.disowned[reference] = None

    def end_write(self, reference: ObjectReference, obj: KubeObject | None) -> None:
        """Forget a write whose object was read live; remember a change that was not done."""
        known = self.writes.pop(reference, None)
        if known is None or obj is None or isinstance(known.write, Create | Delete):
            return
        if obj.metadata.resource_version == known.tried_at:
            self.refuted[reference] = known.tried_at

    def found(self, reference: ObjectReference, obj: KubeObject | None) -> None:
        """Forget what a live read of an object says otherwise of its name."""
        finding = self.findings.get(reference)
        if obj is None:
            is_over = finding is not ABSENT
        else:
            is_ours = is_owned_by(obj.metadata, self.owner.uid)
            is_over = finding is ABSENT or (finding is TAKEN and is_ours)
        if is_over:
            self.findings.pop(reference, None)

    def drop(self, reference: ObjectReference) -> None:
        """Forget what is expected of an object."""
        self.expectations.pop(reference, None)
        self.writes.pop(reference, None)
        self.findings.pop(reference, None)

    def remember(self, memory: Any) -> None:
        """Store the memory of a plan that is about to be carried out."""
        self.memory = memory
        self.made.clear()

    def _created(self, write: Write) -> None:
        """Record a member of a replica; forget the replica when it is complete."""
        if not isinstance(write, Create) or (member := write.member) is None:
            return
        count = member.position + 1
        if count < member.size:
            self.replicas[member.replica] = count
        else:
            self.replicas.pop(member.replica, None)

    def _may_repeat(self, sent: UnansweredWrite, expectation: Expectation[Any]) -> bool:
        """Return whether the write is sent again if its outcome is unknown.

        Nothing is created for a terminating owner, and what was to be deleted for another
        generation may be wanted by now. A deleted object that the store no longer shows is read
        live, like any object that has left the store (EXP-24). Changes are read and planned anew.
        """
        match sent.write:
            case Create():
                return not self.owner.terminating
            case Delete():
                same = sent.generation == self.owner.generation
                return same and not expectation.needs_live_read
            case _:
                return False


def _has_other_owner(write: Write, obj: KubeObject) -> bool:
    """Return whether a created object has another owner than the one that was asked for."""
    if not isinstance(write, Create):
        return False
    asked = requested_owner(write.body.get("metadata") or {}, write.target.namespace)
    return bool(asked) and owner_uid(obj.metadata) not in {"", asked}
