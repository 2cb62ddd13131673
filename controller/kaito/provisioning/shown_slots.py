"""Remembers what claims have shown, as slots of the set, and decides when that is stored.

While claims are lost again and again, what a claim shows is stored with what is decided next. The
process remembers it meanwhile; a restart may count one loss less.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from controller.kaito.provisioning.claims import ClaimState

if TYPE_CHECKING:
    from collections.abc import Collection

    from controller.kaito.provisioning.claim_facts import ClaimFacts
    from controller.kaito.provisioning.commitment import Commitment, Slot

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
