"""One owner's writes of unknown outcome are resolved a few at a time, and in turn."""

from __future__ import annotations

import random

import pytest

from controller.kube.resources import PODS
from controller.runtime.expectations.expectation import ObjectReference
from controller.runtime.expectations.turns import ResolverTurns

A, B, C, D, E = references = [ObjectReference(PODS, f"default/{name}") for name in "abcde"]


def begun(turns: ResolverTurns) -> list[ObjectReference]:
    return [each for each in references if turns.begin("owner", each)]


def end(
    turns: ResolverTurns,
    reference: ObjectReference,
    *,
    owner: str = "owner",
    resolved: bool = True,
    repeated: bool = True,
) -> tuple[list[ObjectReference], float]:
    return turns.end(owner, reference, resolved=resolved, repeated=repeated)


def test_EXP_10_one_begins_and_each_success_doubles_how_many_follow():
    turns = ResolverTurns(random.Random(1))
    assert begun(turns) == [A]
    assert end(turns, A) == ([B, C], 0.0)
    assert turns.begin("owner", B), "it was announced"
    assert end(turns, B) == ([D, E], 0.0)


def test_after_a_failure_the_next_one_is_tried_alone_after_a_back_off_of_the_owner():
    turns = ResolverTurns(random.Random(1))
    begun(turns)
    delays: list[float] = []
    for first, following in [(A, B), (B, C), (C, D), (D, E), (E, A), (A, B), (B, C), (C, D)]:
        found, delay = end(turns, first, resolved=False)
        assert found == [following]
        delays.append(delay)
    for delay, least in zip(delays, [0.5, 1, 2, 4, 8, 16, 32, 45], strict=True):
        assert least <= delay <= 1.2 * least
    assert end(turns, D) == ([E, A], 0.0)
    assert end(turns, E, resolved=False) == ([], pytest.approx(0.5, rel=0.2))


def test_a_read_that_succeeds_ends_no_back_off_of_writes():
    turns = ResolverTurns(random.Random(1))
    begun(turns)
    for first in (A, B, C, D):
        end(turns, first, resolved=False)
    assert end(turns, E, repeated=False) == ([A], 0.0), "it has waited for its turn"
    assert end(turns, A, resolved=False) == ([B], pytest.approx(9, abs=1.7))
    assert end(turns, B) == ([C, D], 0.0), "now a write has succeeded"
    end(turns, C, resolved=False, repeated=False)
    end(turns, D, resolved=False, repeated=False)
    assert end(turns, A, repeated=False) == ([C, D], 0.0)
    assert end(turns, C, resolved=False)[1] < 0.7, "and reads count again"


def test_a_read_that_succeeds_ends_the_back_off_of_reads():
    turns = ResolverTurns(random.Random(1))
    begun(turns)
    for first in (A, B, C):
        end(turns, first, resolved=False, repeated=False)
    assert end(turns, D, repeated=False) == ([E, A], 0.0)


def test_owners_do_not_wait_for_each_other_and_nothing_is_kept_of_one_that_is_done():
    turns = ResolverTurns(random.Random(1))
    assert turns.begin("one", A)
    assert not turns.begin("one", B)
    assert turns.begin("other", C)
    for owner, reference in [("one", A), ("one", B), ("other", C)]:
        end(turns, reference, owner=owner)
    assert turns._owners == {}
    assert turns._owner_of == {}


def test_an_outcome_that_became_known_otherwise_leaves_its_turn_to_the_next():
    turns = ResolverTurns(random.Random(1))
    begun(turns)
    assert end(turns, A) == ([B, C], 0.0)
    assert turns.drop(B, unless="owner") == [], "it is still the owner's"
    assert turns.drop(B, unless="") == [D]
    assert turns.drop(B, unless="") == []
    assert turns.drop(C, unless="another owner") == [E]
    for each in (D, E):
        assert turns.drop(each, unless="") == []
    assert turns._owners == turns._owner_of == {}


def test_an_object_that_another_owner_writes_too_leaves_no_turn_taken():
    turns = ResolverTurns(random.Random(1))
    assert turns.begin("one", A)
    assert not turns.begin("one", B)
    assert turns.drop(B, unless="other") == []
    assert turns.begin("other", B)
    assert end(turns, A, owner="one", resolved=False)[0] == [A], (
        "what the other resolves is not its own"
    )
    assert end(turns, B, owner="other")[0] == []
    assert end(turns, A, owner="one")[0] == []
    assert turns._owners == turns._owner_of == {}
