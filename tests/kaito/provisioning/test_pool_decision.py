"""The next step of a NodePool, from plain facts."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.kaito.provisioning.claims import ClaimState, ObservedClaim, Owner
from controller.kaito.provisioning.pool_decision import (
    NAME_TAKEN,
    PoolDecision,
    PoolFacts,
    decide_pool,
)
from controller.kaito.provisioning.pools import ObservedPool, PoolCommitment

NAME, MACHINE, TEMPLATE = "default-phi", "Standard_NX", "Standard_NX apps=phi"
FACTS = PoolFacts(NAME, 2, MACHINE, TEMPLATE)
POOL = ObservedPool(NAME, "p-1", "7", replicas=2, template=TEMPLATE)
STORED = PoolCommitment(target=2, template=TEMPLATE, replicas=2)


def claims(*states: ClaimState, reason: str = "", message: str = "") -> dict[str, ObservedClaim]:
    found = [
        ObservedClaim(f"c{number}", f"uid-{number}", state, reason=reason, message=message)
        for number, state in enumerate(states)
    ]
    return {each.name: each for each in found}


READY, PENDING = ClaimState.READY, ClaimState.PENDING


def decide(facts: PoolFacts = FACTS, **changes: Any) -> PoolDecision:
    return decide_pool(replace(facts, **changes))


def steps(decision: PoolDecision) -> list[str]:
    """The writes about the pool and its class."""
    return [
        name for name in ("create", "create_class", "grow", "delete") if getattr(decision, name)
    ]


COVERED = PoolCommitment(target=3, template=TEMPLATE, replicas=1, nodes=("n1",), claims=("c0",))
SMALL = replace(POOL, replicas=1)


def test_a_claim_that_is_terminating_is_replaced_and_another_ready_node_comes_first():
    decision = decide(
        target=3, commitment=COVERED, found=SMALL, ready_nodes=frozenset({"n1", "n2"}),
        existing_nodes=frozenset({"n1", "n2"}), earlier_claims=claims(ClaimState.TERMINATING),
    )  # fmt: skip
    assert (decision.commitment.nodes, decision.commitment.replicas) == (("n1", "n2"), 1)


def test_a_node_that_is_not_ready_for_a_while_is_not_replaced():
    decision = decide(
        target=3, commitment=COVERED, found=SMALL, existing_nodes=frozenset({"n1"}),
        earlier_claims=claims(PENDING),
    )  # fmt: skip
    assert (decision.commitment, steps(decision)) == (COVERED, [])


def test_while_the_outcome_of_a_write_is_unknown_nothing_is_written():
    for pool in (None, replace(POOL, replicas=1), replace(POOL, template="Standard_NY")):
        assert steps(decide(commitment=STORED, found=pool, is_pending=True)) == []


# names that are taken


OTHER = replace(POOL, owner=Owner.OTHER, owner_text="Workspace a/b-c", template="other")
EARLIER = replace(POOL, owner=Owner.EARLIER, owner_text="an earlier Workspace of this name")


def test_the_pool_of_an_earlier_workspace_is_waited_for():
    decision = decide(found=EARLIER)
    assert (steps(decision), decision.wait and decision.wait.reason) == ([], NAME_TAKEN)
    going = decide(found=replace(EARLIER, is_terminating=True))
    assert (steps(going), going.wait and going.wait.reason) == ([], "")


# other nodes


def test_a_pool_for_other_nodes_is_deleted_and_the_next_one_created_when_it_is_gone():
    edited = {"template": "Standard_NY", "instance_type": "Standard_NY", "commitment": STORED}
    decision = decide(**edited, found=POOL)
    assert (steps(decision), decision.commitment.template) == (["delete"], "Standard_NY")
    edited["commitment"] = decision.commitment
    assert steps(decide(**edited, found=replace(POOL, is_terminating=True))) == []
    assert steps(decide(**edited, claims=claims(ClaimState.TERMINATING))) == []
    assert steps(decide(**edited)) == ["create"]


def test_a_pool_without_our_mark_is_never_deleted_but_the_difference_is_said():
    unmarked = replace(POOL, template="", instance_types=("Standard_NY",))
    decision = decide(commitment=STORED, found=unmarked)
    assert (steps(decision), decision.wait and decision.wait.reason) == ([], "NodePoolDiffers")
    same = replace(unmarked, instance_types=(MACHINE.upper(),))
    assert decide(commitment=STORED, found=same, claims=claims(READY, READY)).wait is None


# what is waited for


@pytest.mark.parametrize(
    ("found", "pool", "reason", "message"),
    [
        ({}, POOL, "", "0 of 2 NodeClaims are ready; Karpenter needs its feature gate"),
        (claims(READY, PENDING), POOL, "", f"NodePool {NAME}: 1 of 2 NodeClaims are ready"),
        (
            claims(PENDING, reason="LaunchFailed", message="no quota"),
            replace(POOL, reason="NodeClassNotReady"),
            "LaunchFailed",
            "NodeClaim c0: no quota; ",
        ),
        (
            claims(PENDING, reason="AwaitingReconciliation", message="object is awaiting"),
            replace(POOL, reason="NodeClassNotReady", message="no such image"),
            "NodeClassNotReady",
            "no such image; ",
        ),
    ],
)
def test_the_first_cause_is_said_on_which_a_user_can_act(
    found: dict[str, ObservedClaim], pool: ObservedPool, reason: str, message: str
):
    wait = decide(commitment=STORED, found=pool, claims=found).wait
    assert wait is not None
    assert wait.reason == reason
    assert message in wait.message
