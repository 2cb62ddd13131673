"""Decides which claims are created and deleted: a pure function of the observation.

The set of claims is committed before anything is created. Everything that exists or may exist
counts: pending, terminating and unknown claims, and those of an earlier set. So there are never
more claims than needed nodes, even if events or responses are lost, late or repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import Enum

from msgspec import Struct, field
from msgspec.structs import replace

from controller.apimachinery.conditions import CLOCK_SKEW, parse_rfc3339, rfc3339, time_of
from controller.kaito.api.status import NODE_CLAIM_READY, ConditionFacts
from controller.kaito.provisioning.claims import (
    BENIGN_REASONS,
    CLAIMS_READY,
    ClaimFacts,
    ClaimState,
    Commitment,
    ObservedClaim,
    Slot,
    decides,
    recalled,
    remembered,
)
from controller.kaito.provisioning.nodes import claim_name


class Awaited(Enum):
    """An event for which a claim waits."""

    READY = "the claim becomes ready"
    GONE = "the claim is gone"
    ANSWER = "the outcome of a write is known"
    CONFIRMATION = "a look-up confirms that the claim is gone"
    BACK_OFF = "the back-off is over"
    ROOM = "claims of an earlier set are gone"


class ClaimWait(Struct, frozen=True):
    """A claim that waits for an event.

    Attributes:
        until: when the wait ends at the latest, None if only an event ends it.
    """

    claim: str
    awaited: Awaited
    until: datetime | None = None
    reason: str = ""
    message: str = ""


class ClaimDecision(Struct, frozen=True):
    """The steps that are due; the commitment comes first.

    Attributes:
        commitment: to be stored first if it differs from the stored one, under the revision of the
            object from which that was read.
        confirm: names of claims that a live look-up must find absent.
        wake_at: when to decide again if nothing happens, None for never.
        again: whether claims are lost again and again: the last ones were not ready for long.
        is_due: whether the commitment is to be stored now, if it differs.
        shown: slots of the stored set with what their claims have shown, by name; for the next
            decision.
    """

    commitment: Commitment
    create: tuple[str, ...] = ()
    delete: tuple[ObservedClaim, ...] = ()
    confirm: tuple[str, ...] = ()
    waits: tuple[ClaimWait, ...] = ()
    wake_at: datetime | None = None
    again: bool = False
    is_due: bool = True
    shown: Mapping[str, Slot] = field(default_factory=dict[str, "Slot"])


def decide_claims(facts: ClaimFacts, now: datetime) -> ClaimDecision:
    """Return the next step."""
    commitment, held_until, shown = _next_set(facts, now)
    longest = facts.settings.longest_retry
    missing = [slot for slot in commitment.slots if slot.name not in facts.claims]
    unseen = [slot for slot in missing if not slot.seen and slot.name not in facts.pending]
    due = [slot for slot in unseen if slot.may_be_created(now)]
    backing_off = [slot for slot in unseen if not slot.may_be_created(now)]
    room = max(len(commitment.slots) - _existing(commitment, facts), 0)
    create = tuple(slot.name for slot in due[:room])
    wakes = [*map(_retry_at, backing_off), *([held_until] if held_until else [])]
    again = any(each.failures_when(now, longest) > 1 for each in commitment.slots)
    begun = _begun(commitment, create, facts.process)
    return ClaimDecision(
        commitment=begun,
        create=create,
        delete=tuple(_deleted(commitment, facts)),
        confirm=tuple(_unconfirmed(commitment, facts)),
        waits=(
            *_waits(commitment, facts),
            *(_wait(slot, Awaited.ROOM) for slot in due[room:]),
            *(_wait(slot, Awaited.BACK_OFF, _retry_at(slot)) for slot in backing_off),
        ),
        wake_at=min(wakes, default=None),
        again=again,
        is_due=not again or decides(begun, facts),
        shown=shown,
    )


def _begun(commitment: Commitment, names: tuple[str, ...], process: str) -> Commitment:
    """Return the set, marked before this process creates claims of these names."""
    slots = [
        replace(slot, begun_by=process) if slot.name in names else slot for slot in commitment.slots
    ]
    return replace(commitment, slots=tuple(slots))


def _existing(commitment: Commitment, facts: ClaimFacts) -> int:
    """Return the number of claims that exist or may exist."""
    unsure = {slot.name for slot in commitment.slots if slot.seen}
    unsure |= set(commitment.discarded) - facts.absent
    return len(facts.claims.keys() | facts.pending | unsure)


def _deleted(commitment: Commitment, facts: ClaimFacts) -> Iterable[ObservedClaim]:
    """Return claims that have failed for good, and those of an earlier set."""
    for name in (*(slot.name for slot in commitment.slots), *commitment.discarded):
        claim = facts.claims.get(name)
        if claim is None or claim.state is ClaimState.TERMINATING or name in facts.pending:
            continue
        if claim.state is ClaimState.FAILED or name in commitment.discarded:
            yield claim


def _unconfirmed(commitment: Commitment, facts: ClaimFacts) -> Iterable[str]:
    """Return claims that existed, or may have, and are not observed."""
    seen = [slot.name for slot in commitment.slots if slot.seen]
    for name in (*seen, *commitment.discarded):
        if name not in facts.claims and name not in facts.pending and name not in facts.absent:
            yield name


def _waits(commitment: Commitment, facts: ClaimFacts) -> Iterable[ClaimWait]:
    for slot in commitment.slots:
        claim = facts.claims.get(slot.name)
        if slot.name in facts.pending:
            yield _wait(slot, Awaited.ANSWER)
        elif claim is None:
            if slot.seen:
                yield _wait(slot, Awaited.CONFIRMATION)
        elif claim.state is ClaimState.PENDING:
            # what the present claim says is newer than why the last one failed
            yield _wait(slot, Awaited.READY, None, claim.reason, claim.message)
        elif claim.state is not ClaimState.READY:
            yield _wait(slot, Awaited.GONE)


def _wait(
    slot: Slot, awaited: Awaited, until: datetime | None = None, reason: str = "", message: str = ""
) -> ClaimWait:
    """Return a wait, for the slot's cause unless there is a newer one."""
    return ClaimWait(slot.name, awaited, until, reason or slot.reason, message or slot.message)


def _retry_at(slot: Slot) -> datetime:
    return parse_rfc3339(slot.retry_at)


def claim_condition(decision: ClaimDecision) -> ConditionFacts:
    """Return `NodeClaimReady`; a cause that a person can remove comes first."""
    if not decision.waits and not decision.create and decision.commitment.target:
        return CLAIMS_READY
    errors = [wait for wait in decision.waits if wait.reason not in BENIGN_REASONS]
    cause = next(iter(errors or decision.waits), None)
    reason, message = "NodeClaimNotReady", "Ready NodeClaims are not enough"
    if errors:
        reason, message = errors[0].reason, errors[0].message
    if cause is not None:
        until = f", at {rfc3339(cause.until)}" if cause.until else ""
        awaited = f"{cause.awaited.value}{until}"
        message = f"{message}; NodeClaim {cause.claim}: waiting until {awaited}"
    return ConditionFacts(NODE_CLAIM_READY, False, reason, message)


def _next_set(
    facts: ClaimFacts, now: datetime
) -> tuple[Commitment, datetime | None, Mapping[str, Slot]]:
    """Return the set that is committed next, when its ready nodes are given back, and its slots.

    It changes only when the specification changes, a claim fails for good or is certainly gone, and
    when its nodes were held for long without ever being complete. The slots are the stored ones
    with what their claims have shown.
    """
    commitment = _with_specification(facts.commitment or _first(facts), facts)
    commitment = _without_lost_nodes(commitment, facts)
    generation = commitment.generation
    shown = [_shown(slot, facts, now) for slot in commitment.slots]
    slots = tuple(_replaced(slot, generation, facts, now) for slot in shown)
    commitment = _completed(replace(commitment, slots=slots), facts)
    held_until = _held_until(commitment, facts, now)
    if held_until is not None and now >= held_until:
        commitment = _given_back(commitment, facts, now)
        held_until = None
    gone = facts.absent - facts.claims.keys()
    left = tuple(name for name in commitment.discarded if name not in gone)
    return replace(commitment, discarded=left), held_until, remembered(shown, facts)


def _first(facts: ClaimFacts) -> Commitment:
    """Return the first set: existing nodes and claims, and as many more as are needed."""
    nodes = sorted(facts.ready_nodes)[: facts.target]
    needed = facts.target - len(nodes)
    found = sorted(
        facts.claims.values(),
        key=lambda each: (each.created.timestamp() if each.created else 0.0, each.name),
    )
    living = [each for each in found if each.state is not ClaimState.TERMINATING]
    going = [each for each in found if each.state is ClaimState.TERMINATING]
    adopted = [*living, *going[: max(needed - len(living), 0)]]
    slots = [Slot(place=place, name=each.name) for place, each in enumerate(adopted)]
    commitment = Commitment(
        target=facts.target, template=facts.template, slots=tuple(slots), own_nodes=tuple(nodes)
    )
    return commitment.with_slots(facts.uid, max(needed - len(slots), 0))


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


def _replaced(slot: Slot, generation: int, facts: ClaimFacts, now: datetime) -> Slot:
    """Return the slot, with another claim if that of a slot without one is lost."""
    if slot.name in facts.claims:
        return slot
    if slot.name in facts.conflicts:
        message = f"a claim of another owner has the name {slot.name}"
        return _next(
            replace(slot, reason="NodeClaimNameTaken", message=message), generation, facts.uid
        )
    if not slot.seen or slot.name not in facts.absent:
        return _not_longer(slot, now + facts.settings.longest_retry)
    failures = slot.failures_when(now, facts.settings.longest_retry)
    reason = slot.reason or "NodeClaimDisappeared"
    message = slot.message or f"{slot.name} is gone"
    failed = replace(slot, failures=failures, reason=reason, message=message)
    renamed = _next(failed, generation, facts.uid)
    # the first that is lost after it was ready is replaced at once
    wait = facts.settings.retry_after(failures - 1 if slot.ready_since else failures)
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


def _held_until(commitment: Commitment, facts: ClaimFacts, now: datetime) -> datetime | None:
    """Return the time at which ready nodes of a set that was never complete are given back."""
    if commitment.target < 2 or commitment.complete or facts.pending:
        return None
    stored = {slot.name: time_of(slot.ready_since) for slot in commitment.slots}
    ready = [each for each in _ready(commitment, facts) if each.ready_since]
    since = [_believed(now, each.ready_since, stored[each.name]) for each in ready]
    return min(since) + facts.settings.hold if since else None


def _believed(now: datetime, *moments: datetime | None) -> datetime:
    """Return the first of these moments that no clock that was ahead has written, else `now`."""
    latest = now + CLOCK_SKEW
    return next((each for each in moments if each is not None and each <= latest), now)


def _given_back(commitment: Commitment, facts: ClaimFacts, now: datetime) -> Commitment:
    """Return another set, to be created later: others may need the nodes that this one holds."""
    ready, total = len(_ready(commitment, facts)), len(commitment.slots)
    causes = [slot for slot in commitment.slots if slot.reason]
    why = f": {causes[0].message}" if causes else ""
    minutes = int(facts.settings.hold.total_seconds() // 60)
    message = f"{ready} of {total} nodes were ready for {minutes} minutes and are given back{why}"
    times = commitment.given_back + 1
    until = now + facts.settings.retry_after(times)
    replaced = commitment.replaced(facts.uid)
    slots = [
        replace(slot.delayed(until), reason="NodesGivenBack", message=message)
        for slot in replaced.slots
    ]
    return replace(replaced, slots=tuple(slots), given_back=times)
