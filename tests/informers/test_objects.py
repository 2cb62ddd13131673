from __future__ import annotations

from informers import Tombstone, key_of, last_state
from tests.informers.doubles import Meta, Thing

THING = Thing(Meta("a", "ns"))


def test_the_last_state_of_an_unobserved_deletion_is_what_was_seen_last():
    assert last_state(THING) is THING
    assert last_state(Tombstone("ns/a", THING)) is THING


def test_a_tombstone_has_the_key_of_its_object():
    assert key_of(Tombstone("ns/a", THING)) == key_of(THING) == "ns/a"
