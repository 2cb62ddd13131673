"""Ready nodes, their plugins, and the conditions about them."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from controller.kaito.api.status import ConditionFacts
from controller.kaito.provisioning.claims import ClaimState
from controller.kaito.provisioning.decision import claim_condition
from controller.kaito.provisioning.nodes import NodeFacts, NodeHistory, node_readiness
from tests.kaito.provisioning.test_decision import NAMES, world
from tests.kaito.provisioning.world import START

TYPE = "Standard_NC24ads_A100_v4"


def node(
    name: str = "n",
    type_: str = TYPE,
    *,
    claimed: bool = True,
    labelled: bool = True,
    ready: bool = True,
    gpus: int = 1,
    pressures: tuple[str, ...] = (),
) -> NodeFacts:
    labels = {"node.kubernetes.io/instance-type": type_}
    labels |= {"karpenter.sh/nodepool": "kaito"} if claimed else {}
    labels |= {"accelerator": "nvidia"} if labelled else {}
    return NodeFacts(name, labels, is_ready=ready, gpus=gpus, pressures=pressures)


@pytest.mark.parametrize(
    ("nodes", "reason", "message", "to_label"),
    [
        ([node("a"), node("b")], "NodesReady", "Enough Nodes are ready", ()),
        ([node("a")], "NodeNotReady", "Not enough Nodes are ready: 1 of 2", ()),
        (
            [node("a"), node("b", ready=False)],
            "NodeNotReady",
            "Not enough Nodes are ready: 1 of 2",
            (),
        ),
        ([node("a"), node("b", "other")], "NodeNotReady", "Not enough Nodes are ready: 1 of 2", ()),
        ([node("a"), node("b", TYPE.lower())], "NodesReady", "Enough Nodes are ready", ()),
        (
            [node("a"), node("b", gpus=0)],
            "NodePluginsNotReady",
            "waiting all node plugins to be ready: b",
            (),
        ),
        (
            [node("a", labelled=False), node("b")],
            "NodePluginsNotReady",
            "waiting all node plugins to be ready: a",
            ("a",),
        ),
        ([node("a"), node("b", claimed=False, gpus=0)], "NodesReady", "Enough Nodes are ready", ()),
        ([node("a"), node("b"), node("c", gpus=0)], "NodesReady", "Enough Nodes are ready", ()),
        (
            [node("a"), node("b", pressures=("DiskPressure", "PIDPressure"))],
            "NodesReady",
            (
                "Enough Nodes are ready; warning: worker node(s) under resource pressure: b "
                "(DiskPressure, PIDPressure)"
            ),
            (),
        ),
    ],
)
def test_two_nodes_must_be_ready_and_offer_their_gpus(
    nodes: list[NodeFacts], reason: str, message: str, to_label: tuple[str, ...]
):
    found = node_readiness(nodes, 2, TYPE, has_gpus=True)
    assert (found.reason, found.message, found.to_label) == (reason, message, to_label)
    assert found.is_true is (reason == "NodesReady")


def test_the_condition_says_what_is_waited_for():
    found = world()
    assert claim_condition(found.settle()) == ConditionFacts(
        "NodeClaimReady",
        is_true=False,
        reason="NodeClaimNotReady",
        message="Ready NodeClaims are not enough; "
        f"NodeClaim {NAMES[0]}: waiting until the claim becomes ready",
    )


def test_a_stock_out_is_the_first_cause_also_when_the_claim_is_gone():
    found = world()
    found.settle()
    found.set_state(NAMES[1], ClaimState.FAILED, "InsufficientCapacity")
    found.settle()
    found.remove(NAMES[1])
    condition = claim_condition(found.settle())
    assert condition.reason == "InsufficientCapacity"
    assert condition.message.endswith("waiting until the back-off is over, at 2026-01-01T00:00:30Z")


# where new nodes were lost, others are labelled only once they have lasted for a moment


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def test_the_label_waits_for_longer_the_more_often_new_nodes_are_lost():
    history, waits = NodeHistory(), []
    for round_ in range(6):
        name = f"n{round_}"
        history = history.after({name}, at(10 * round_))
        waits.append(history.wait(name, at(10 * round_)))
        history = history.after((), at(10 * round_ + 5))
    assert waits == [0, 10, 20, 30, 30, 30]
