"""What is known of a Workspace's claims: the state of each, and the committed set."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Container, Mapping
from datetime import datetime, timedelta
from enum import Enum
from itertools import islice
from typing import Final

import msgspec
from msgspec.structs import replace

from controller.apimachinery.conditions import READY, parse_rfc3339, rfc3339, time_of
from controller.apimachinery.metadata import owner_uid
from controller.kaito.api.karpenter import NodeClaim
from controller.kaito.api.options import ClaimSettings
from controller.kaito.api.status import NODE_CLAIM_READY, ConditionFacts, cut
from controller.kaito.provisioning.nodes import claim_name
from controller.kube.objects import Condition, ObjectMeta

_STAGES: Final = ("Launched", "Registered", "Initialized")
_BENIGN: Final = "AwaitingReconciliation"
BENIGN_REASONS: Final = frozenset({"", _BENIGN})
"""Reasons of claims that need only time."""

CLAIMS_READY: Final = ConditionFacts(
    NODE_CLAIM_READY, True, "NodeClaimsReady", "Enough NodeClaims are ready"
)
_TERMINAL_REASONS: Final = frozenset({"InsufficientCapacity", "InsufficientCapacityError"})
_STOCK_OUT: Final = "all requested instance types were unavailable during launch"


class ClaimState(Enum):
    """The state of a claim."""

    PENDING = "pending"
    READY = "ready"
    FAILED = "failed"
    TERMINATING = "terminating"


class ObservedClaim(msgspec.Struct, frozen=True):
    """A claim that belongs to the Workspace.

    Attributes:
        ready_since: time when it became ready; None if it is not ready, or the time is unknown.
        reason: one word about why it is not ready; may be empty.
    """

    name: str
    uid: str
    state: ClaimState
    created: datetime | None = None
    ready_since: datetime | None = None
    reason: str = ""
    message: str = ""


class Owner(Enum):
    """The owner of an object that has the name or the labels of a Workspace's."""

    THIS = "this Workspace"
    EARLIER = "an earlier Workspace of this name"
    OTHER = "another owner"


def owner_of(obj: ObjectMeta, named: tuple[str, ...], workspace: ObjectMeta) -> Owner:
    """Return the owner of an object by its uid, or by the labels that Kaito writes (KAI-9, KAI-20).

    Objects that Kaito created have no uid; they belong to a Workspace that is not younger.
    """
    uid = owner_uid(obj)
    if uid == workspace.uid:
        return Owner.THIS
    if named != (workspace.key,):
        return Owner.OTHER
    created, since = time_of(obj.creation_timestamp), time_of(workspace.creation_timestamp)
    is_older = created is not None and since is not None and created < since
    return Owner.EARLIER if uid or is_older else Owner.THIS


def observed_claim(claim: NodeClaim) -> ObservedClaim:
    """Return the facts about a claim on which decisions depend."""
    metadata = claim.metadata
    state = claim_state(claim)
    ready = claim.status.condition(READY)
    since = ready.last_transition_time if ready and state is ClaimState.READY else None
    cause = None if state is ClaimState.READY else first_cause(claim)
    return ObservedClaim(
        name=metadata.name,
        uid=metadata.uid,
        state=state,
        created=time_of(metadata.creation_timestamp),
        ready_since=time_of(since),
        reason=cause.reason if cause else "",
        message=cut(cause.message) if cause else "",
    )


def claim_state(claim: NodeClaim) -> ClaimState:
    """Return the state. Without the condition Ready, a claim with a node is ready, as in Kaito."""
    if claim.metadata.terminating:
        return ClaimState.TERMINATING
    is_unknown = claim.status.condition(READY) is None
    if claim.status.is_true(READY) or (is_unknown and claim.status.node_name):
        return ClaimState.READY
    return ClaimState.FAILED if _is_hopeless(claim) else ClaimState.PENDING


def first_cause(claim: NodeClaim) -> Condition | None:
    """Return the condition of the earliest stage not reached; errors come before waits."""
    conditions = [found for stage in _STAGES if (found := claim.status.condition(stage))]
    open_ = [each for each in conditions if each.status != "True" and each.message]
    errors = [each for each in open_ if each.reason != _BENIGN]
    return next(iter(errors or open_), None)


def _is_hopeless(claim: NodeClaim) -> bool:
    """Return whether the provider has given up on it: no such machine is available."""
    launched = claim.status.condition("Launched")
    if launched is None or launched.status != "False":
        return False
    return launched.reason in _TERMINAL_REASONS or _STOCK_OUT in launched.message


class ClaimFacts(msgspec.Struct, frozen=True):
    """The facts on which the decision depends.

    What is wanted, and the nodes that are there, are added once it is known how many are needed.

    Attributes:
        ready_nodes: names of nodes that need no claim and are ready.
        existing_nodes: names of all nodes that need no claim.
        pending: names of claims with a write whose outcome is not known, or that cannot be decoded.
        absent: committed names that a live look-up has not found.
        conflicts: committed names under which a claim of another owner exists.
        process: a name that no other process has.
        remembered: slots of the stored set with what their claims have shown since, by name.
    """

    uid: str
    target: int = 0
    template: str = ""
    commitment: Commitment | None = None
    claims: Mapping[str, ObservedClaim] = msgspec.field(default_factory=dict[str, ObservedClaim])
    ready_nodes: frozenset[str] = frozenset()
    existing_nodes: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()
    absent: frozenset[str] = frozenset()
    conflicts: frozenset[str] = frozenset()
    process: str = ""
    remembered: Mapping[str, Slot] = msgspec.field(default_factory=dict[str, "Slot"])
    settings: ClaimSettings = msgspec.field(default_factory=ClaimSettings)


# Remembers what claims have shown, as slots of the set, and decides when that is stored.
#
# While claims are lost again and again, what a claim shows is stored with what is decided next. The
# process remembers it meanwhile; a restart may count one loss less.

_EARLIER_SLOTS: Final = 8
"""Minimum earlier slots that are remembered."""


def recalled(slot: Slot, facts: ClaimFacts) -> Slot:
    """Return a stored slot with what the last decision knew of its claim."""
    last = facts.remembered.get(slot.name)
    return slot if last is None or not last.seen else _as_shown(slot, last)


def remembered(shown: Collection[Slot], facts: ClaimFacts) -> dict[str, Slot]:
    """Return what claims have shown, those of earlier slots too: the stored set may be older.

    Beyond a number, the slots are forgotten that have been earlier ones for longest.
    """
    present = {slot.name: slot for slot in shown}
    earlier = [item for item in facts.remembered.items() if item[0] not in present]
    most = len(shown) + _EARLIER_SLOTS
    return dict(earlier[-most:]) | present


def decides(commitment: Commitment, facts: ClaimFacts) -> bool:
    """Return whether a set differs from the stored one in more than what its claims show."""
    stored = facts.commitment
    if stored is None:
        return True
    slots = {slot.name: slot for slot in commitment.slots if _is_well_so_far(slot, facts)}
    return commitment != replace(
        stored, slots=tuple(_as_shown(slot, slots.get(slot.name)) for slot in stored.slots)
    )


def _is_well_so_far(slot: Slot, facts: ClaimFacts) -> bool:
    claim = facts.claims.get(slot.name)
    if claim is None:
        return False
    return claim.state in {ClaimState.PENDING, ClaimState.READY} or bool(slot.ready_since)


def _as_shown(slot: Slot, shown: Slot | None) -> Slot:
    """Return a stored slot with what its claim has shown."""
    if shown is None:
        return slot
    words = {"reason": shown.reason, "message": shown.message, "retry_at": shown.retry_at}
    return replace(slot, seen=shown.seen, ready_since=shown.ready_since, **words)


MOST_NODES: Final = 256
"""Maximum nodes of a Workspace: a set of this size always fits into an annotation."""

_MOST_SLOTS: Final = 4 * MOST_NODES
"""Maximum claims of a set: Kaito may have created more than are needed."""

_ANY_TIME: Final = parse_rfc3339("2000-01-01T00:00:00Z")


class Stored(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """Part of the annotation: defaults are left out."""


class Slot(Stored, frozen=True):
    """One claim of the set, and those that it replaces.

    Attributes:
        place: among the claims of the Workspace; never changes.
        attempt: number of claims that had this place before, in this generation.
        begun_by: the process that creates the claim. Another process stores itself here first, so
            that one that has read an old set gets a conflict before it creates anything.
        seen: whether the claim has existed.
        ready_since: when it became ready, RFC 3339; empty if it never was.
        failures: claims in a row that were not ready for long.
        retry_at: time before which the claim is not created, RFC 3339; empty if it may be.
        reason: why the last one failed; empty once the present one is ready.
    """

    place: int
    name: str
    attempt: int = 0
    begun_by: str = ""
    seen: bool = False
    ready_since: str = ""
    failures: int = 0
    retry_at: str = ""
    reason: str = ""
    message: str = ""

    def may_be_created(self, now: datetime) -> bool:
        """Return whether the back-off is over."""
        return not self.retry_at or parse_rfc3339(self.retry_at) <= now

    def failures_when(self, lost: datetime, long: timedelta) -> int:
        """Return the consecutive failures if the claim is lost then; 1 if it was ready for long."""
        lasted = bool(self.ready_since) and parse_rfc3339(self.ready_since) + long <= lost
        return 1 if lasted else self.failures + 1

    def delayed(self, until: datetime) -> Slot:
        """Return the slot, with a claim that may not be created before that time."""
        return replace(self, retry_at=rfc3339(until))


class Commitment(Stored, frozen=True):
    """The committed set of claims of a Workspace, stored before any is created or deleted.

    It is an annotation, so that it survives the operator and fits Kaito's definitions too.

    Attributes:
        template: what the claims are made from; another one leads to another set.
        own_nodes: names of nodes that were there before, and need no claim.
        discarded: names of earlier claims that must go.
        generation: how often the whole set was replaced.
        complete: whether all nodes were ready at once.
        given_back: number of consecutive times that a part of the set was given back.
    """

    target: int
    template: str = ""
    slots: tuple[Slot, ...] = ()
    own_nodes: tuple[str, ...] = ()
    discarded: tuple[str, ...] = ()
    generation: int = 0
    complete: bool = False
    given_back: int = 0

    @property
    def names(self) -> frozenset[str]:
        """The names of all claims: those of the set, and those that must go."""
        return frozenset({*self.discarded, *(slot.name for slot in self.slots)})

    def with_slots(self, uid: str, count: int) -> Commitment:
        """Return the set with `count` more claims, in the lowest free places."""
        places = {slot.place for slot in self.slots}
        free = islice((each for each in itertools.count() if each not in places), count)
        new = [_new_slot(uid, place, self.generation, self.names) for place in free]
        slots = sorted((*self.slots, *new), key=lambda slot: slot.place)
        return replace(self, slots=tuple(slots))

    def replaced(self, uid: str) -> Commitment:
        """Return a set of as many claims under new names; the present ones are discarded."""
        discarded = tuple(sorted(self.names))
        generation = self.generation + 1
        empty = replace(self, slots=(), generation=generation, discarded=discarded, complete=False)
        return empty.with_slots(uid, len(self.slots))


def _new_slot(uid: str, place: int, generation: int, taken: Container[str]) -> Slot:
    """Return a claim whose name is not taken: claims that were adopted may have any name."""
    attempt = 0
    while (name := claim_name(uid, place, generation, attempt)) in taken:
        attempt += 1
    return Slot(place=place, name=name, attempt=attempt)


def read_commitment(text: str | None) -> Commitment | None:
    """Return the set in an annotation; None if there is none or it is implausible."""
    try:
        found = msgspec.json.decode(text or "", type=Commitment)
        for slot in found.slots:
            slot.may_be_created(_ANY_TIME)
            slot.failures_when(_ANY_TIME, timedelta())
    except (msgspec.DecodeError, ValueError):
        return None
    is_possible = 0 < found.target <= MOST_NODES and len(found.slots) <= _MOST_SLOTS
    return found if is_possible else None


def write_commitment(commitment: Stored) -> str:
    """Return the text of the annotation."""
    return msgspec.json.encode(commitment).decode()
