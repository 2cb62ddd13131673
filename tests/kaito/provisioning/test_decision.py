"""Which claims and pools are created, deleted and waited for, case by case."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from controller.kaito.api.status import cut
from controller.kaito.provisioning.claims import (
    MOST_NODES,
    ClaimFacts,
    ClaimState,
    Commitment,
    ObservedClaim,
    Owner,
    Slot,
    read_commitment,
    write_commitment,
)
from controller.kaito.provisioning.decision import Awaited, decide_claims
from controller.kaito.provisioning.nodes import claim_name
from controller.kaito.provisioning.pool_decision import (
    NAME_TAKEN,
    PoolDecision,
    PoolFacts,
    decide_pool,
)
from controller.kaito.provisioning.pools import ObservedPool, PoolCommitment
from tests.kaito.provisioning.world import START, UID, World

NAMES = [claim_name(UID, place, 0, 0) for place in range(4)]


def world(target: int = 2, **more) -> World:
    return World(target, **more)


def whole(target: int = 2, **more) -> World:
    """A world whose set is complete."""
    found = world(target, **more)
    found.settle()
    for name in list(found.claims):
        found.set_state(name, ClaimState.READY)
    found.settle()
    return found


def states(found: World) -> dict[str, str]:
    return {name: claim.state.value for name, claim in found.claims.items()}


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "x",
        "[]",
        '{"target":"x"}',
        '{"target":1,"slots":[{"place":0,"name":"a","retryAt":"x"}]}',
        '{"target":0}',
        '{"target":-1}',
        '{"target":257}',
        write_commitment(Commitment(target=1, slots=(Slot(place=0, name="a"),) * 1025)),
    ],
)
def test_an_annotation_that_cannot_be_right_counts_as_none(text: str | None):
    assert read_commitment(text) is None


def test_the_largest_set_fits_into_the_annotations_of_an_object():
    times = "2026-01-01T00:00:00Z"
    slots = tuple(
        Slot(
            place=place,
            name="ws012345678",
            attempt=1000,
            begun_by="01234567",
            seen=True,
            ready_since=times,
            failures=1000,
            retry_at=times,
            reason="InsufficientCapacityError",
            message=cut('"' * 1000),
        )
        for place in range(MOST_NODES)
    )
    text = write_commitment(Commitment(target=MOST_NODES, template="t" * 1000, slots=slots))
    assert len(text) < 220 * 1024
    assert read_commitment(text) is not None


def test_a_claim_that_never_became_ready_is_replaced_with_back_off_that_survives_a_restart():
    found = world(1)
    delays = []
    for _ in range(7):
        decision = found.settle()
        name = next(iter(found.claims))
        found.set_state(name, ClaimState.FAILED, "InsufficientCapacity")
        found.settle()
        assert states(found) == {name: "terminating"}
        found.remove(name)
        found.restart()
        decision = found.settle()
        assert not found.claims
        (wait,) = decision.waits
        assert (wait.awaited, wait.reason) == (Awaited.BACK_OFF, "InsufficientCapacity")
        assert wait.until == decision.wake_at is not None
        delays.append((decision.wake_at - found.now).total_seconds())
        found.now = decision.wake_at
    assert delays == [30, 60, 120, 240, 480, 600, 600]


def test_machines_that_are_lost_soon_after_they_were_ready_are_replaced_with_back_off():
    found = world(1)
    delays: list[float] = []
    for _ in range(5):
        found.settle()
        (name,) = found.claims
        found.set_state(name, ClaimState.READY)
        found.settle()
        found.now += timedelta(minutes=9)
        found.remove(name)
        wake_at = found.settle().wake_at
        delays.append((wake_at - found.now).total_seconds() if wake_at else 0.0)
        found.now = wake_at or found.now
    assert delays == [0, 30, 60, 120, 240]


def test_another_machine_leads_to_another_set_when_the_first_is_gone():
    found = whole()
    found.template = "b"
    decision = found.settle()
    assert set(states(found).values()) == {"terminating"}
    assert [wait.awaited for wait in decision.waits] == [Awaited.ROOM, Awaited.ROOM]
    for name in list(found.claims):
        found.remove(name)
    found.settle()
    assert set(found.claims) == {claim_name(UID, place, 1, 0) for place in range(2)}
    assert found.most == 2
    assert found.commitment().discarded == ()


def test_a_larger_target_adds_claims_and_a_smaller_one_gives_up_the_least_worth():
    found = whole()
    found.target = 3
    found.settle()
    assert len(found.claims) == 3
    found.target = 2
    found.settle()
    assert states(found) == {NAMES[0]: "ready", NAMES[1]: "ready", NAMES[2]: "terminating"}
    found.remove(NAMES[2])
    assert found.settle().waits == ()
    found.target = 3
    found.settle()
    assert len(found.claims) == 3
    assert NAMES[2] not in found.claims


def test_nodes_that_are_there_need_no_claims_and_are_replaced_only_when_they_no_longer_exist():
    facts = ClaimFacts(UID, 2, "a", ready_nodes=frozenset("x"), existing_nodes=frozenset("x"))
    first = decide_claims(facts, START)
    assert first.create == (NAMES[0],)
    assert first.commitment.own_nodes == ("x",)
    not_ready = replace(facts, commitment=first.commitment, ready_nodes=frozenset())
    assert len(decide_claims(not_ready, START).commitment.slots) == 1
    gone = replace(not_ready, existing_nodes=frozenset())
    assert decide_claims(gone, START).create == (NAMES[0], NAMES[1])


def adopted(name: str, state: ClaimState = ClaimState.READY, age: int = 0) -> ObservedClaim:
    return ObservedClaim(name, f"uid-{name}", state, START - timedelta(hours=age))


def test_an_adopted_claim_never_has_a_namesake():
    claims = {NAMES[1]: adopted(NAMES[1])}
    decision = decide_claims(ClaimFacts(UID, 2, "a", claims=claims), START)
    names = [slot.name for slot in decision.commitment.slots]
    assert len(set(names)) == 2
    assert decision.create == (claim_name(UID, 1, 0, 1),)


def test_a_name_that_somebody_else_has_is_not_insisted_on():
    first = decide_claims(ClaimFacts(UID, 1, "a"), START)
    facts = ClaimFacts(UID, 1, "a", first.commitment, conflicts=frozenset(first.create))
    decision = decide_claims(facts, START)
    assert decision.create == (claim_name(UID, 0, 0, 1),)
    assert decision.commitment.slots[0].reason == "NodeClaimNameTaken"


def test_a_part_of_a_set_is_given_back_at_the_deadline_and_asked_for_again_later():
    found = world(3)
    found.settle()
    found.set_state(NAMES[0], ClaimState.READY)
    found.set_state(NAMES[1], ClaimState.FAILED, "InsufficientCapacity")
    decision = found.settle()
    deadline = found.now + timedelta(minutes=30)
    assert deadline == decision.wake_at
    found.remove(NAMES[1])
    found.pass_time(29 * 60)
    found.settle()
    assert found.claims[NAMES[0]].state is ClaimState.READY
    found.pass_time(61)
    decision = found.settle()
    assert set(states(found).values()) == {"terminating"}
    assert all(wait.reason == "NodesGivenBack" for wait in decision.waits)
    assert decision.waits[0].message.startswith(
        "1 of 3 nodes were ready for 30 minutes and are given back: InsufficientCapacity"
    )
    for name in list(found.claims):
        found.remove(name)
    decision = found.settle()
    assert not found.claims
    found.now = decision.wake_at or found.now
    found.settle()
    assert len(found.claims) == 3
    assert found.most == 3


def test_a_set_that_became_ready_by_a_clock_that_was_ahead_is_given_back_in_time():
    found = world(3)
    found.settle()
    found.pass_time(5 * 3600)
    found.set_state(NAMES[0], ClaimState.READY)
    found.pass_time(-5 * 3600)
    decision = found.settle()
    assert decision.wake_at == found.now + timedelta(minutes=30)
    found.pass_time(29 * 60)
    assert found.settle().wake_at == found.now + timedelta(minutes=1)
    found.pass_time(61)
    assert all(wait.reason == "NodesGivenBack" for wait in found.settle().waits)


def test_a_set_whose_time_was_stored_by_a_clock_that_was_ahead_is_given_back_in_time():
    found = world(3)
    found.settle()
    found.pass_time(5 * 3600)
    found.set_state(NAMES[0], ClaimState.READY)
    found.settle()
    found.pass_time(-5 * 3600)
    found.settle()
    found.pass_time(30 * 60 + 1)
    assert all(wait.reason == "NodesGivenBack" for wait in found.settle().waits)


def test_whatever_may_exist_leaves_no_room_for_another_claim():
    slots = (Slot(place=0, name="a", begun_by="p0", seen=True), Slot(place=1, name="b"))
    pair = Commitment(target=2, template="a", slots=slots)
    facts = ClaimFacts(UID, 2, "a", pair, {"x": adopted("x")})
    assert decide_claims(facts, START).create == ()
    one = Commitment(target=1, template="a", slots=slots[1:], discarded=("old",))
    assert decide_claims(ClaimFacts(UID, 1, "a", one), START).create == ()
    unknown = ClaimFacts(UID, 1, "a", one, pending=frozenset({"old"}), absent=frozenset({"old"}))
    assert decide_claims(unknown, START).create == ()
    gone = replace(unknown, pending=frozenset())
    assert decide_claims(gone, START).create == ("b",)


def test_a_claim_that_was_seen_is_not_created_again_after_an_older_set_was_read_meanwhile():
    stored = Commitment(
        target=1, template="a", slots=(Slot(place=0, name="x", attempt=2, failures=1),)
    )
    older = replace_slots(stored, Slot(place=0, name="w", attempt=1, seen=True))
    claim = ObservedClaim("x", "uid-x", ClaimState.PENDING, START)
    first = decide_claims(ClaimFacts(UID, 1, "a", stored, {"x": claim}), START)
    assert not first.is_due
    second = decide_claims(ClaimFacts(UID, 1, "a", older, remembered=first.shown), START)
    third = decide_claims(ClaimFacts(UID, 1, "a", stored, remembered=second.shown), START)
    assert (third.create, third.confirm) == ((), ("x",))


def replace_slots(stored: Commitment, *slots: Slot) -> Commitment:
    return msgspec.structs.replace(stored, slots=slots)


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
