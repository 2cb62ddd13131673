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


def test_EXP_10_one_begins_and_each_success_doubles_how_many_follow():
    turns = ResolverTurns(random.Random(1))
    assert begun(turns) == [A]
    assert turns.end("owner", A, resolved=True) == ([B, C], 0.0)
    assert turns.begin("owner", B), "it was announced"
    assert turns.end("owner", B, resolved=True) == ([D, E], 0.0)


def test_after_a_failure_the_next_one_is_tried_alone_after_a_back_off_of_the_owner():
    turns = ResolverTurns(random.Random(1))
    begun(turns)
    delays: list[float] = []
    for first, following in [(A, B), (B, C), (C, D), (D, E), (E, A), (A, B), (B, C), (C, D)]:
        found, delay = turns.end("owner", first, resolved=False)
        assert found == [following]
        delays.append(delay)
    for delay, least in zip(delays, [0.5, 1, 2, 4, 8, 16, 32, 45], strict=True):
        assert least <= delay <= 1.2 * least
    assert turns.end("owner", D, resolved=True) == ([E, A], 0.0)
    assert turns.end("owner", E, resolved=False) == ([], pytest.approx(0.5, rel=0.2))


def test_owners_do_not_wait_for_each_other_and_nothing_is_kept_of_one_that_is_done():
    turns = ResolverTurns(random.Random(1))
    assert turns.begin("one", A)
    assert not turns.begin("one", B)
    assert turns.begin("other", C)
    for owner, reference in [("one", A), ("one", B), ("other", C)]:
        turns.end(owner, reference, resolved=True)
    assert turns._owners == {}
    assert turns._owner_of == {}


def test_an_outcome_that_became_known_otherwise_leaves_its_turn_to_the_next():
    turns = ResolverTurns(random.Random(1))
    begun(turns)
    assert turns.end("owner", A, resolved=True) == ([B, C], 0.0)
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
    assert turns.end("one", A, resolved=False)[0] == [A], "what the other resolves is not its own"
    assert turns.end("other", B, resolved=True)[0] == []
    assert turns.end("one", A, resolved=True)[0] == []
    assert turns._owners == turns._owner_of == {}
