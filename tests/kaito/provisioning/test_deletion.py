"""The claims and the NodePool of a deleted Workspace."""

from __future__ import annotations

from controller.kaito.provisioning.claims import ClaimState, ObservedClaim
from controller.kaito.provisioning.decision import (
    BOUND,
    remove_claims,
)
from tests.kaito.provisioning.world import START

READY = ObservedClaim("b", "uid-b", ClaimState.READY)
GOING = ObservedClaim("c", "uid-c", ClaimState.TERMINATING)


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
