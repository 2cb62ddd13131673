"""The claims and the NodePool of a deleted Workspace."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from controller.kaito.provisioning.claims import ClaimState, ObservedClaim
from controller.kaito.provisioning.decision import (
    BOUND,
    ClaimRemoval,
    PoolRemoval,
    remove_claims,
    remove_pool,
)
from controller.kaito.provisioning.pools import ObservedPool
from tests.kaito.provisioning.world import START

READY = ObservedClaim("b", "uid-b", ClaimState.READY)
PENDING = ObservedClaim("a", "uid-a", ClaimState.PENDING)
GOING = ObservedClaim("c", "uid-c", ClaimState.TERMINATING)


def test_without_claims_the_finalizer_is_removed_at_once():
    assert remove_claims([], [], START, START) == ClaimRemoval()


def test_all_claims_are_deleted_once_and_waited_for():
    removal = remove_claims([READY, PENDING, GOING], [], START, START + timedelta(minutes=1))
    assert removal.delete == (PENDING, READY)
    assert removal.remaining == ("NodeClaim a", "NodeClaim b", "NodeClaim c")
    assert not removal.is_over
    assert removal.wake_at == START + BOUND


def test_a_claim_whose_creation_has_no_known_outcome_is_waited_for():
    removal = remove_claims([], ["d"], START, START)
    assert (removal.remaining, removal.is_over) == (("NodeClaim d",), False)


def test_a_claim_with_an_unknown_deletion_is_not_deleted_again():
    assert remove_claims([READY], ["b"], START, START).delete == ()


def test_after_the_bound_the_finalizer_is_removed_and_says_what_is_left():
    removal = remove_claims([GOING], [], START, START + BOUND)
    assert removal.is_over
    assert removal.remaining == ("NodeClaim c",)
    assert removal.wake_at is None


POOL = ObservedPool("default-phi", "p-1")


def test_a_pool_is_deleted_once_and_waited_for_with_its_claims():
    removal = remove_pool("default-phi", POOL, ["b", "a"], is_pending=False)
    remaining = ("NodePool default-phi", "NodeClaim a", "NodeClaim b")
    assert removal == PoolRemoval(POOL, remaining)
    going = replace(POOL, is_terminating=True)
    assert remove_pool("default-phi", going, ["b", "a"], is_pending=False).delete is None
    assert remove_pool("default-phi", None, ["a"], is_pending=False).remaining == ("NodeClaim a",)
    assert remove_pool("default-phi", None, [], is_pending=False) == PoolRemoval()


def test_a_pool_with_a_write_of_unknown_outcome_is_waited_for_and_not_deleted_again():
    for pool in (None, POOL):
        removal = remove_pool("default-phi", pool, [], is_pending=True)
        assert removal == PoolRemoval(None, ("NodePool default-phi",))


def test_what_remains_of_a_pool_keeps_the_finalizer():
    removal = remove_claims([GOING], [], START, START, ("NodePool default-phi",))
    assert removal.remaining == ("NodePool default-phi", "NodeClaim c")
    assert not remove_claims([], [], START, START, ("NodePool default-phi",)).is_over
