"""Pods go to nodes that have the labels which they require, where the settings ask for it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from controller.devcluster.nodes.pods import KubeletPod, PodConditionType
from controller.devcluster.nodes.scheduler import has_required_labels
from controller.kube.resources import NODES

if TYPE_CHECKING:
    from conftest import World

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def affinity(*terms: list[dict[str, Any]]) -> dict[str, Any]:
    selected = {"nodeSelectorTerms": [{"matchExpressions": term} for term in terms]}
    return {"nodeAffinity": {REQUIRED: selected}}


def rule(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


OF_PHI = affinity([rule("workspace", "In", "phi")])


@pytest.mark.parametrize(
    ("spec", "labels", "fits"),
    [
        ({}, {}, True),
        ({"nodeSelector": {"a": "1"}}, {"a": "1", "b": "2"}, True),
        ({"nodeSelector": {"a": "1"}}, {"a": "2"}, False),
        ({"affinity": affinity([rule("a", "In", "1", "2")])}, {"a": "2"}, True),
        ({"affinity": affinity([rule("a", "In", "1", "2")])}, {}, False),
        ({"affinity": affinity([rule("a", "NotIn", "1")])}, {}, True),
        ({"affinity": affinity([rule("a", "NotIn", "1")])}, {"a": "1"}, False),
        ({"affinity": affinity([rule("a", "Exists")])}, {"a": ""}, True),
        ({"affinity": affinity([rule("a", "Exists")])}, {"b": ""}, False),
        ({"affinity": affinity([rule("a", "DoesNotExist")])}, {}, True),
        ({"affinity": affinity([rule("a", "DoesNotExist")])}, {"a": ""}, False),
        ({"affinity": affinity([rule("a", "Gt", "1")])}, {"a": "2"}, True),
        ({"affinity": affinity([rule("a", "Lt", "1")])}, {"a": "2"}, False),
        ({"affinity": affinity([rule("a", "Gt", "1")])}, {"a": "many"}, False),
        ({"affinity": affinity([rule("a", "Near", "1")])}, {"a": "1"}, False),
        ({"affinity": affinity([rule("a", "Exists"), rule("b", "Exists")])}, {"a": ""}, False),
        ({"affinity": affinity([rule("a", "Exists")], [rule("b", "Exists")])}, {"b": ""}, True),
        (
            {"nodeSelector": {"a": "1"}, "affinity": affinity([rule("b", "Exists")])},
            {"b": ""},
            False,
        ),
    ],
)
def test_a_node_must_meet_the_selector_and_one_term_of_the_affinity(
    spec: dict[str, Any], labels: dict[str, str], fits: bool
):
    pod = msgspec.convert({"metadata": {"name": "p"}, "spec": spec}, KubeletPod)
    assert has_required_labels(pod, labels) is fits


async def register(world: World, name: str, **labels: str) -> None:
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
    await world.user.create(NODES, "", body)


async def test_a_pod_waits_for_a_node_with_its_labels_and_runs_there(world: World):
    async with world.nodes("kubelet", scheduling=True):
        await world.create_pod("p", affinity=OF_PHI)
        await register(world, "other", workspace="falcon")
        await asyncio.sleep(10)
        waiting = await world.pod("p")
        condition = waiting.status.condition(PodConditionType.SCHEDULED)
        assert condition is not None
        assert (condition.status, condition.reason) == ("False", "Unschedulable")
        assert waiting.spec.node_name == ""

        await register(world, "gpu", workspace="phi")
        await asyncio.sleep(10)
        assert (await world.pod("p")).spec.node_name == "gpu"
        assert await world.is_ready("p")


async def test_a_label_that_comes_later_is_noticed(world: World):
    async with world.nodes("kubelet", scheduling=True):
        await register(world, "gpu")
        await world.create_pod("p", affinity=OF_PHI)
        await asyncio.sleep(5)
        patch = {"metadata": {"labels": {"workspace": "phi"}}}
        await world.user.merge_patch(NODES, "", "gpu", patch)
        await asyncio.sleep(5)
        assert await world.is_ready("p")


async def test_labels_are_not_looked_at_unless_the_settings_say_so(world: World):
    async with world.nodes("kubelet"):
        await world.create_pod("p", affinity=OF_PHI)
        await asyncio.sleep(10)
        assert (await world.pod("p")).spec.node_name == "manta-node-0"
