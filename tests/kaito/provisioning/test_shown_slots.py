"""What is remembered of the slots of a set and of earlier ones."""

from __future__ import annotations

from controller.kaito.provisioning.claims import ClaimFacts, remembered
from controller.kaito.provisioning.commitment import Slot
from tests.kaito.provisioning.world import UID


def test_however_often_other_claims_are_lost_what_a_lasting_one_has_shown_is_remembered():
    facts = ClaimFacts(UID, 2)
    lasting = Slot(place=0, name="a", seen=True)
    for number in range(50):
        lost = Slot(place=1, name=f"b{number}", seen=True)
        slots = remembered((lasting, lost), facts)
        facts = ClaimFacts(UID, 2, remembered=slots)
        assert slots["a"] == lasting
        assert slots[lost.name] == lost
        assert len(slots) <= 12
    assert [*facts.remembered] == [*(f"b{number}" for number in range(39, 49)), "a", "b49"]
