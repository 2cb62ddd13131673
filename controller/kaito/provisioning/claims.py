"""The state of one NodeClaim."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from controller.apimachinery.conditions import CLOCK_SKEW, READY, parse_rfc3339, rfc3339, time_of
from controller.apimachinery.ownership import owner_uid
from controller.kaito.api import labels
from controller.kaito.api.messages import cut
from controller.kaito.provisioning.commitment import Commitment, Slot
from controller.kaito.provisioning.nodes import claim_name

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from controller.kaito.api.karpenter import NodeClaim
    from controller.kube.objects import Condition, ObjectMeta


_LAUNCHED: Final = "Launched"
_STAGES: Final = (_LAUNCHED, "Registered", "Initialized")
_BENIGN: Final = "AwaitingReconciliation"
BENIGN_REASONS: Final = frozenset({"", _BENIGN})
"""Reasons of claims that need only time."""

_TERMINAL_REASONS: Final = frozenset({"InsufficientCapacity", "InsufficientCapacityError"})
_STOCK_OUT: Final = "all requested instance types were unavailable during launch"


class ClaimState(Enum):
    """The state of a claim."""

    PENDING = "pending"
    READY = "ready"
    FAILED = "failed"
    TERMINATING = "terminating"


@dataclass(frozen=True, slots=True)
class ObservedClaim:
    """A claim that belongs to the Workspace.

    Attributes:
        name: name of the claim.
        uid: uid of the claim.
        state: its state.
        created: time of its creation.
        ready_since: time when it became ready; None if it is not ready, or the time is unknown.
        reason: one word about why it is not ready; may be empty.
        message: the same as a text.
    """

    name: str
    uid: str
    state: ClaimState
    created: datetime | None = None
    ready_since: datetime | None = None
    reason: str = ""
    message: str = ""


def belongs_to(claim: NodeClaim, workspace: ObjectMeta) -> bool:
    """Return whether a claim belongs to this Workspace, not to an earlier namesake (KAI-20).

    Claims of ours have the Workspace's uid. Those that Kaito created have its name and namespace
    only; they belong to it if they are not older.
    """
    uid = owner_uid(claim.metadata)
    if uid:
        return uid == workspace.uid
    own = claim.metadata.labels or {}
    names = (own.get(labels.WORKSPACE), own.get(labels.WORKSPACE_NAMESPACE))
    if names != (workspace.name, workspace.namespace):
        return False
    created = time_of(claim.metadata.creation_timestamp)
    since = time_of(workspace.creation_timestamp)
    return created is None or since is None or created >= since


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
    ready = claim.status.condition(READY)
    if ready is None and claim.status.node_name:
        return ClaimState.READY
    if ready is not None and ready.status == "True":
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
    launched = claim.status.condition(_LAUNCHED)
    if launched is None or launched.status != "False":
        return False
    return launched.reason in _TERMINAL_REASONS or _STOCK_OUT in launched.message


# The observed facts and the settings on which the decision about claims depends.


@dataclass(frozen=True, slots=True)
class ClaimSettings:
    """Durations of waits.

    Attributes:
        first_retry: wait after the first failure of a claim; doubled by each further one.
        longest_retry: maximum wait. A claim that was ready for this long resets the failures.
        hold: time for which ready nodes of an incomplete set of several are held.
    """

    first_retry: timedelta = timedelta(seconds=30)
    longest_retry: timedelta = timedelta(minutes=10)
    hold: timedelta = timedelta(minutes=30)

    def retry_after(self, failures: int) -> timedelta:
        """Return the wait before a claim is created again after so many consecutive failures."""
        if failures < 1:
            return timedelta()
        return min(self.first_retry * 2 ** min(failures - 1, 20), self.longest_retry)


@dataclass(frozen=True, slots=True)
class ClaimFacts:
    """The facts on which the decision depends.

    What is wanted, and the nodes that are there, are added once it is known how many are needed.

    Attributes:
        uid: uid of the Workspace.
        target: number of nodes that the specification leads to.
        template: what claims are made from: a hash.
        commitment: the stored set, None if there is none.
        claims: the claims that belong to this Workspace, by name.
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
    claims: Mapping[str, ObservedClaim] = field(default_factory=dict[str, ObservedClaim])
    ready_nodes: frozenset[str] = frozenset()
    existing_nodes: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()
    absent: frozenset[str] = frozenset()
    conflicts: frozenset[str] = frozenset()
    process: str = ""
    remembered: Mapping[str, Slot] = field(default_factory=dict[str, "Slot"])


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


# Computes the set of claims that a Workspace commits next: a pure function of the observation.
#
# The set changes only when the specification changes, a claim fails for good, or a claim is
# certainly gone; and when its nodes were held for long without ever being complete.

_DISAPPEARED: Final = "NodeClaimDisappeared"
_TAKEN: Final = "NodeClaimNameTaken"
_GIVEN_BACK: Final = "NodesGivenBack"


@dataclass(frozen=True, slots=True)
class NextSet:
    """The set that is committed next.

    Attributes:
        commitment: the set.
        held_until: the time at which its ready nodes are given back, None for never.
        shown: slots of the stored set with what their claims have shown, by name.
    """

    commitment: Commitment
    held_until: datetime | None
    shown: Mapping[str, Slot]


def next_set(facts: ClaimFacts, now: datetime, settings: ClaimSettings) -> NextSet:
    """Return the set."""
    commitment = _with_specification(facts.commitment or _first(facts), facts)
    commitment = _without_lost_nodes(commitment, facts)
    generation = commitment.generation
    shown = [_shown(slot, facts, now) for slot in commitment.slots]
    slots = tuple(
        slot
        if slot.name in facts.claims
        else _without_claim(slot, generation, facts, now, settings)
        for slot in shown
    )
    commitment = _completed(replace(commitment, slots=slots), facts)
    held_until = _held_until(commitment, facts, now, settings)
    if held_until is not None and now >= held_until:
        commitment = _given_back(commitment, facts, now, settings)
        held_until = None
    gone = {name for name in commitment.discarded if name in facts.absent - facts.claims.keys()}
    left = tuple(name for name in commitment.discarded if name not in gone)
    return NextSet(replace(commitment, discarded=left), held_until, remembered(shown, facts))


def _first(facts: ClaimFacts) -> Commitment:
    """Return the first set: existing nodes and claims, and as many more as are needed."""
    nodes = sorted(facts.ready_nodes)[: facts.target]
    needed = facts.target - len(nodes)
    found = sorted(facts.claims.values(), key=_by_age)
    living = [each for each in found if each.state is not ClaimState.TERMINATING]
    going = [each for each in found if each.state is ClaimState.TERMINATING]
    adopted = [*living, *going[: max(needed - len(living), 0)]]
    slots = [Slot(place=place, name=each.name) for place, each in enumerate(adopted)]
    commitment = Commitment(
        target=facts.target,
        template=facts.template,
        slots=tuple(slots),
        own_nodes=tuple(nodes),
    )
    return commitment.with_slots(facts.uid, max(needed - len(slots), 0))


def _by_age(claim: ObservedClaim) -> tuple[float, str]:
    return (claim.created.timestamp() if claim.created else 0.0, claim.name)


def _with_specification(commitment: Commitment, facts: ClaimFacts) -> Commitment:
    """Return the set that the specification leads to now."""
    if commitment.template != facts.template:
        replaced = commitment.replaced(facts.uid)
        commitment = replace(replaced, template=facts.template, given_back=0)
    change = facts.target - commitment.target
    if change == 0:
        return commitment
    commitment = replace(commitment, target=facts.target, complete=False)
    return _shrunk(commitment, facts, -change) if change < 0 else commitment


def _shrunk(commitment: Commitment, facts: ClaimFacts, surplus: int) -> Commitment:
    """Return the set with fewer claims; those never created or not ready are dropped first."""
    surplus = min(surplus, len(commitment.slots))
    by_worth = sorted(commitment.slots, key=lambda slot: (_worth(slot, facts), -slot.place))
    dropped = {slot.name for slot in by_worth[:surplus]}
    return replace(
        commitment,
        slots=tuple(slot for slot in commitment.slots if slot.name not in dropped),
        discarded=tuple(sorted({*commitment.discarded, *dropped})),
        generation=commitment.generation + 1,
    )


def _worth(slot: Slot, facts: ClaimFacts) -> int:
    claim = facts.claims.get(slot.name)
    if claim is None:
        return 0
    return 2 if claim.state is ClaimState.READY else 1


def _without_lost_nodes(commitment: Commitment, facts: ClaimFacts) -> Commitment:
    """Return the set with a claim in the place of each earlier node that no longer exists."""
    nodes = tuple(name for name in commitment.own_nodes if name in facts.existing_nodes)
    missing = commitment.target - len(nodes) - len(commitment.slots)
    return replace(commitment, own_nodes=nodes).with_slots(facts.uid, max(missing, 0))


def _shown(slot: Slot, facts: ClaimFacts, now: datetime) -> Slot:
    """Return the slot with what its claim shows, or has shown before."""
    slot, claim = recalled(slot, facts), facts.claims.get(slot.name)
    if claim is None:
        return slot
    if claim.state is ClaimState.READY:
        since = rfc3339(_believed(now, time_of(slot.ready_since), claim.ready_since))
        quiet = {"retry_at": "", "reason": "", "message": ""}
        return replace(slot, seen=True, ready_since=since, **quiet)
    if claim.state is ClaimState.PENDING or slot.ready_since:
        return replace(slot, seen=True)
    # the last that is known of the claim, before it is gone
    reason, message = claim.reason or slot.reason, claim.message or slot.message
    return replace(slot, seen=True, reason=reason, message=message)


def _without_claim(
    slot: Slot, generation: int, facts: ClaimFacts, now: datetime, settings: ClaimSettings
) -> Slot:
    if slot.name in facts.conflicts:
        message = f"a claim of another owner has the name {slot.name}"
        return _next(replace(slot, reason=_TAKEN, message=message), generation, facts.uid)
    if not slot.seen or slot.name not in facts.absent:
        return _not_longer(slot, now + settings.longest_retry)
    failures = slot.failures_when(now, settings.longest_retry)
    reason = slot.reason or _DISAPPEARED
    message = slot.message or f"{slot.name} is gone"
    failed = replace(slot, failures=failures, reason=reason, message=message)
    renamed = _next(failed, generation, facts.uid)
    # the first that is lost after it was ready is replaced at once
    wait = settings.retry_after(failures - 1 if slot.ready_since else failures)
    return renamed.delayed(now + wait) if wait else renamed


def _not_longer(slot: Slot, longest: datetime) -> Slot:
    """Return the slot without a wait longer than any back-off: a clock has gone back."""
    is_longer = bool(slot.retry_at) and parse_rfc3339(slot.retry_at) > longest
    return slot.delayed(longest) if is_longer else slot


def _next(slot: Slot, generation: int, uid: str) -> Slot:
    """Return the place with another claim."""
    attempt = slot.attempt + 1
    name = claim_name(uid, slot.place, generation, attempt)
    fresh = {"begun_by": "", "seen": False, "ready_since": "", "retry_at": ""}
    return replace(slot, name=name, attempt=attempt, **fresh)


def _completed(commitment: Commitment, facts: ClaimFacts) -> Commitment:
    """Return the set, marked once all of its nodes are ready."""
    if commitment.complete or len(_ready(commitment, facts)) < len(commitment.slots):
        return commitment
    if not frozenset(commitment.own_nodes) <= facts.ready_nodes:
        return commitment
    return replace(commitment, complete=True, given_back=0)


def _ready(commitment: Commitment, facts: ClaimFacts) -> list[ObservedClaim]:
    found = [facts.claims.get(slot.name) for slot in commitment.slots]
    return [each for each in found if each and each.state is ClaimState.READY]


def _held_until(
    commitment: Commitment, facts: ClaimFacts, now: datetime, settings: ClaimSettings
) -> datetime | None:
    """Return the time at which ready nodes of a set that was never complete are given back."""
    if commitment.target < 2 or commitment.complete or facts.pending:
        return None
    stored = {slot.name: time_of(slot.ready_since) for slot in commitment.slots}
    ready = [each for each in _ready(commitment, facts) if each.ready_since]
    since = [_believed(now, each.ready_since, stored[each.name]) for each in ready]
    return min(since) + settings.hold if since else None


def _believed(now: datetime, *moments: datetime | None) -> datetime:
    """Return the first of these moments that no clock that was ahead has written, else `now`."""
    latest = now + CLOCK_SKEW
    return next((each for each in moments if each is not None and each <= latest), now)


def _given_back(
    commitment: Commitment, facts: ClaimFacts, now: datetime, settings: ClaimSettings
) -> Commitment:
    """Return another set, to be created later: others may need the nodes that this one holds."""
    ready, total = len(_ready(commitment, facts)), len(commitment.slots)
    causes = [slot for slot in commitment.slots if slot.reason]
    why = f": {causes[0].message}" if causes else ""
    minutes = int(settings.hold.total_seconds() // 60)
    message = f"{ready} of {total} nodes were ready for {minutes} minutes and are given back{why}"
    times = commitment.given_back + 1
    until = now + settings.retry_after(times)
    replaced = commitment.replaced(facts.uid)
    slots = [
        replace(slot.delayed(until), reason=_GIVEN_BACK, message=message) for slot in replaced.slots
    ]
    return replace(replaced, slots=tuple(slots), given_back=times)
