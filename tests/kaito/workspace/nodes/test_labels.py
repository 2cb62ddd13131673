"""The label of a node's accelerator, and what plans remember of nodes for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from msgspec.structs import replace

from controller.kaito.api import labels
from controller.kaito.api.karpenter import NODE_CLAIMS, NODES
from controller.kaito.api.workspace import WORKSPACES, Workspace
from controller.runtime.plan import Plan
from tests.kaito.support import workspace
from tests.kaito.workspace.given import NOW, Given, claim, node, writes


@dataclass
class Life:
    """A Workspace that is planned for again and again, with what its plans remember."""

    given: Given = field(default_factory=lambda: Given().with_nodes())

    def plan(self, seconds: float, *names: str) -> Plan:
        """The plan at that time, when there are these nodes without the label."""
        reads = self.given.reads
        reads.objects = {key: obj for key, obj in reads.objects.items() if key[0] != NODES.plural}
        reads.add(NODE_CLAIMS, claim())
        reads.add(NODES, *(node(name, **{labels.ACCELERATOR: ""}) for name in names))
        plan = self.given.kind.plan(self.given.observe(), NOW + timedelta(seconds=seconds))
        reads.history = plan.memory
        return plan


def with_generation(found: Workspace, generation: int) -> Workspace:
    return replace(found, metadata=replace(found.metadata, generation=generation))


def labelled(plan: Plan) -> list[str]:
    return [each.target.name for each in writes(plan) if each.target.resource is NODES]


def test_nodes_in_place_of_new_ones_that_were_lost_are_labelled_once_they_last():
    life = Life()
    assert labelled(life.plan(0, "n0")) == ["n0"]
    life.plan(5)
    plan = life.plan(20, "n1")
    assert labelled(plan) == []
    assert plan.requeue_after == 10
    assert labelled(life.plan(29, "n1")) == []
    assert labelled(life.plan(30, "n1")) == ["n1"]


def test_what_is_remembered_of_nodes_outlives_an_invalid_edit():
    life = Life()
    life.plan(0, "n0")
    before = life.given.reads.history
    invalid = workspace(resource={"instanceType": "x1"})
    life.given.reads.add(WORKSPACES, with_generation(invalid, 7))
    plan = life.plan(1, "n0")
    assert writes(plan) == []
    assert plan.memory.generation.number == 7
    assert plan.memory.nodes == before.nodes
