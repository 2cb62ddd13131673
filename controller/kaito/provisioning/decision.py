"""Decides which claims are created and deleted: a pure function of the observation.

The set of claims is committed before anything is created. Everything that exists or may exist
counts: pending, terminating and unknown claims, and those of an earlier set. So there are never
more claims than needed nodes, even if events or responses are lost, late or repeated.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from msgspec.structs import replace

from controller.apimachinery.timestamps import parse_rfc3339
from controller.kaito.provisioning.claim_facts import ClaimSettings
from controller.kaito.provisioning.claim_set import next_set
from controller.kaito.provisioning.claims import ClaimState, ObservedClaim
from controller.kaito.provisioning.shown_slots import decides

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from controller.kaito.provisioning.claim_facts import ClaimFacts
    from controller.kaito.provisioning.commitment import Commitment, Slot


class Awaited(Enum):
    """An event for which a claim waits."""

    READY = "the claim becomes ready"
    GONE = "the claim is gone"
    ANSWER = "the outcome of a write is known"
    CONFIRMATION = "a look-up confirms that the claim is gone"
    BACK_OFF = "the back-off is over"
    ROOM = "claims of an earlier set are gone"


@dataclass(frozen=True, slots=True)
class ClaimWait:
    """A claim that waits for an event.

    Attributes:
        claim: its name.
        awaited: the event that it waits for.
        until: when the wait ends at the latest, None if only an event ends it.
        reason: the cause, in one word; may be empty.
        message: the same in words.
    """

    claim: str
    awaited: Awaited
    until: datetime | None = None
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class ClaimDecision:
    """The steps that are due; the commitment comes first.

    Attributes:
        commitment: to be stored first if it differs from the stored one, under the revision of the
            object from which that was read.
        create: names of claims.
        delete: claims.
        confirm: names of claims that a live look-up must find absent.
        waits: what else is waited for.
        wake_at: when to decide again if nothing happens, None for never.
        unexpected: claims that belong to no set; they count and are left alone.
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
    unexpected: tuple[str, ...] = ()
    again: bool = False
    is_due: bool = True
    shown: Mapping[str, Slot] = field(default_factory=dict[str, "Slot"])


def decide_claims(
    facts: ClaimFacts, now: datetime, settings: ClaimSettings | None = None
) -> ClaimDecision:
    """Return the next step."""
    settings = settings or ClaimSettings()
    found = next_set(facts, now, settings)
    slots = found.commitment.slots
    again = any(slot.failures_when(now, settings.longest_retry) > 1 for slot in slots)
    decision = _steps(found.commitment, facts, now, found.held_until, again=again)
    is_due = not again or decides(decision.commitment, facts)
    return dataclasses.replace(decision, is_due=is_due, shown=found.shown)


def _steps(
    commitment: Commitment,
    facts: ClaimFacts,
    now: datetime,
    held_until: datetime | None,
    *,
    again: bool,
) -> ClaimDecision:
    """Return the decision that the set leads to."""
    claims = facts.claims
    missing = [slot for slot in commitment.slots if slot.name not in claims]
    unseen = [slot for slot in missing if not slot.seen and slot.name not in facts.pending]
    due = [slot for slot in unseen if slot.may_be_created(now)]
    room = max(len(commitment.slots) - _existing(commitment, facts), 0)
    created = frozenset(slot.name for slot in due[:room])
    backing_off = [slot for slot in unseen if not slot.may_be_created(now)]
    wakes = [*map(_retry_at, backing_off), *([held_until] if held_until else [])]
    known = {*(slot.name for slot in commitment.slots), *commitment.discarded}
    return ClaimDecision(
        commitment=_begun(commitment, created, facts.process),
        create=tuple(slot.name for slot in due[:room]),
        delete=tuple(_deleted(commitment, facts)),
        confirm=tuple(_unconfirmed(commitment, facts)),
        waits=(*_waits(commitment, facts), *_held_back(due[room:]), *_backing_off(backing_off)),
        wake_at=min(wakes, default=None),
        unexpected=tuple(sorted(claims.keys() - known)),
        again=again,
    )


def _begun(commitment: Commitment, names: frozenset[str], process: str) -> Commitment:
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
    failed = [slot.name for slot in commitment.slots if _has_failed(slot, facts)]
    for name in (*failed, *commitment.discarded):
        claim = facts.claims.get(name)
        if claim and claim.state is not ClaimState.TERMINATING and name not in facts.pending:
            yield claim


def _has_failed(slot: Slot, facts: ClaimFacts) -> bool:
    claim = facts.claims.get(slot.name)
    return claim is not None and claim.state is ClaimState.FAILED


def _unconfirmed(commitment: Commitment, facts: ClaimFacts) -> Iterable[str]:
    """Return claims that existed, or may have, and are not observed."""
    seen = [slot.name for slot in commitment.slots if slot.seen]
    for name in (*seen, *commitment.discarded):
        if name not in facts.claims and name not in facts.pending and name not in facts.absent:
            yield name


def _waits(commitment: Commitment, facts: ClaimFacts) -> Iterable[ClaimWait]:
    for slot in commitment.slots:
        claim = facts.claims.get(slot.name)
        reason, message = slot.reason, slot.message
        if slot.name in facts.pending:
            yield ClaimWait(slot.name, Awaited.ANSWER, None, reason, message)
        elif claim is None:
            if slot.seen:
                yield ClaimWait(slot.name, Awaited.CONFIRMATION, None, reason, message)
        elif claim.state is ClaimState.PENDING:
            # what the present claim says is newer than why the last one failed
            cause = (claim.reason or reason, claim.message or message)
            yield ClaimWait(slot.name, Awaited.READY, None, *cause)
        elif claim.state is not ClaimState.READY:
            yield ClaimWait(slot.name, Awaited.GONE, None, reason, message)


def _held_back(slots: Iterable[Slot]) -> Iterable[ClaimWait]:
    for slot in slots:
        yield ClaimWait(slot.name, Awaited.ROOM, None, slot.reason, slot.message)


def _backing_off(slots: Iterable[Slot]) -> Iterable[ClaimWait]:
    for slot in slots:
        yield ClaimWait(slot.name, Awaited.BACK_OFF, _retry_at(slot), slot.reason, slot.message)


def _retry_at(slot: Slot) -> datetime:
    return parse_rfc3339(slot.retry_at)
