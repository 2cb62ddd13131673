"""Pods go to nodes with room and the labels that they require, or say why to none."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from controller.kube.resources import CLAIMS, NODES
from devcluster.nodes.components import NodeShape
from devcluster.nodes.pods import PODS, KubeletPod, PodConditionType
from devcluster.nodes.scheduler import Placements, has_required_labels
from informers import Updated
from tests.devcluster.nodes.conftest import World

CPU = NodeShape("cpu", "4", "16Gi", labels={"zone": "a"})
OTHER = NodeShape("other", "4", "16Gi", labels={"zone": "b"})
GPU = NodeShape(
    "gpu",
    "8",
    "64Gi",
    {"nvidia.com/gpu": "8"},
    {"zone": "b", "kind": "H100"},
    ({"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},),
)
TOLERATES = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
UNFIT = "1 Preemption is not helpful for scheduling."
FULL = "1 No preemption victims found for incoming pod."


def container(name: str = "main", **requests: str) -> dict[str, Any]:
    named = {key.replace("_", "/"): value for key, value in requests.items()}
    limits = {key: value for key, value in named.items() if "/" in key}
    return {"name": name, "image": "ray:1", "resources": {"requests": named, "limits": limits}}


def asks(**requests: str) -> dict[str, Any]:
    return {"containers": [container(**requests)]}


def spread(when: str = "DoNotSchedule", key: str = "zone") -> dict[str, Any]:
    selector = {"matchLabels": {"app": "x"}}
    constraint = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when}
    return {"topologySpreadConstraints": [constraint | {"labelSelector": selector}]}


async def outcome(world: World, pod: str) -> str:
    found = await world.pod(pod)
    condition = found.status.condition(PodConditionType.SCHEDULED)
    assert condition is not None
    if found.spec.node_name:
        return found.spec.node_name
    assert (condition.status, condition.reason) == ("False", "Unschedulable")
    return condition.message or ""


@pytest.mark.parametrize(
    ("nodes", "spec", "expected"),
    [
        pytest.param([CPU], asks(cpu="4"), "cpu", id="exactly all"),
        pytest.param([CPU], asks(cpu="4500m"), f"1 Insufficient cpu. {UNFIT}", id="too large"),
        pytest.param(
            [CPU],
            asks(cpu="5", memory="17Gi"),
            f"1 Insufficient cpu, 1 Insufficient memory. {UNFIT}",
            id="too large in two ways",
        ),
        pytest.param(
            [CPU],
            {"containers": [container("a", cpu="3"), container("b", cpu="2")]},
            f"1 Insufficient cpu. {UNFIT}",
            id="the sum of its containers",
        ),
        pytest.param(
            [CPU],
            {**asks(cpu="1"), "initContainers": [container("init", cpu="5")]},
            f"1 Insufficient cpu. {UNFIT}",
            id="an init container",
        ),
        pytest.param(
            [CPU],
            {
                **asks(cpu="2"),
                "initContainers": [container("beside", cpu="3") | {"restartPolicy": "Always"}],
            },
            f"1 Insufficient cpu. {UNFIT}",
            id="a sidecar and what runs beside it",
        ),
        pytest.param(
            [CPU], asks(amd_gpu="1"), f"1 Insufficient amd/gpu. {UNFIT}", id="an unknown resource"
        ),
        pytest.param(
            [CPU],
            {"nodeSelector": {"kind": "H100"}},
            f"1 node(s) didn't match Pod's node affinity/selector. {UNFIT}",
            id="a selector that nothing has",
        ),
        pytest.param(
            [GPU],
            {"nodeSelector": {"kind": "H100"}},
            f"1 node(s) had untolerated taint {{nvidia.com/gpu: present}}. {UNFIT}",
            id="a taint",
        ),
        pytest.param([CPU, GPU], {"nodeSelector": {"kind": "H100"}, "tolerations": TOLERATES},
                     "gpu", id="a toleration"),
        pytest.param([CPU, OTHER], spread(), "other", id="spread"),
        pytest.param(
            [CPU],
            spread(key="rack"),
            "1 node(s) didn't match pod topology spread constraints (missing required label). "
            + FULL,
            id="spread over a label that no node has",
        ),
        pytest.param([CPU], spread("ScheduleAnyway", "rack"), "cpu", id="a wish to be spread"),
        pytest.param(
            [CPU],
            {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]},
            f'persistentvolumeclaim "data" not found. {UNFIT}',
            id="a missing claim",
        ),
    ],
)  # fmt: skip
async def test_a_pod_goes_where_it_fits(
    world: World, nodes: list[NodeShape], spec: dict[str, Any], expected: str
):
    """On the node `cpu`, where a pod `app: x` runs already."""
    async with world.nodes("kubelet", scheduling=True, shapes=tuple(nodes)):
        at_first = {"zone": "a"} if CPU in nodes else {"kind": "H100"}
        await world.create_pod(
            "first", labels={"app": "x"}, nodeSelector=at_first, tolerations=TOLERATES
        )
        await asyncio.sleep(5)
        await world.create_pod("p", labels={"app": "x"}, **spec)
        await asyncio.sleep(5)
        found = await outcome(world, "p")
        if found.startswith("0/"):
            about = f"0/{len(nodes)} nodes are available: "
            assert found.startswith(about)
            assert found.removeprefix(about).replace(f"preemption: {about}", "") == expected
        else:
            assert found == expected


async def test_room_that_becomes_free_is_given_to_who_waits(world: World):
    async with world.nodes("kubelet", scheduling=True, shapes=(CPU,)):
        for name in ("a", "b"):
            await world.create_pod(name, **asks(cpu="3"))
        await asyncio.sleep(5)
        placed, waiting = sorted(["a", "b"], key=lambda name: name != "a")
        if await outcome(world, placed) != "cpu":
            placed, waiting = waiting, placed
        assert f"1 Insufficient cpu. preemption: 0/1 nodes are available: {FULL}" in await outcome(
            world, waiting
        )
        await world.user.delete(PODS, "default", placed)
        await asyncio.sleep(5)
        assert await outcome(world, waiting) == "cpu"


async def test_room_of_a_pod_that_goes_at_once_is_given_to_who_waits(world: World):
    """A pod that is deleted with force never reports that it has ended."""
    async with world.nodes("kubelet", scheduling=True, shapes=(CPU,)):
        await world.create_pod("a", **asks(cpu="3"))
        await asyncio.sleep(5)
        await world.create_pod("b", **asks(cpu="3"))
        await asyncio.sleep(5)
        assert "Insufficient cpu" in await outcome(world, "b")
        await world.user.delete(PODS, "default", "a", grace_seconds=0)
        await asyncio.sleep(5)
        assert await outcome(world, "b") == "cpu"


async def test_a_node_takes_no_more_pods_than_it_says(world: World):
    async with world.nodes("kubelet", scheduling=True, shapes=(CPU,), max_pods=1):
        await world.create_pod("a")
        await asyncio.sleep(5)
        await world.create_pod("b")
        await asyncio.sleep(5)
        assert await outcome(world, "a") == "cpu"
        assert f"1 Too many pods. preemption: 0/1 nodes are available: {FULL}" in await outcome(
            world, "b"
        )


async def test_a_cordoned_node_gets_no_pods_until_it_is_uncordoned(world: World):
    async with world.nodes("kubelet", scheduling=True, shapes=(CPU,)):
        await world.user.merge_patch(NODES, "", "cpu", {"spec": {"unschedulable": True}})
        await asyncio.sleep(5)
        await world.create_pod("p")
        await asyncio.sleep(5)
        assert "1 node(s) were unschedulable. " in await outcome(world, "p")
        await world.user.merge_patch(NODES, "", "cpu", {"spec": {"unschedulable": None}})
        await asyncio.sleep(5)
        assert await outcome(world, "p") == "cpu"


async def test_a_lost_node_gets_no_pods_until_it_is_back(world: World):
    async with world.nodes("kubelet", scheduling=True, shapes=(CPU,)):
        await world.lose_node("cpu")
        await asyncio.sleep(5)
        await world.create_pod("p")
        await asyncio.sleep(5)
        taint = "1 node(s) had untolerated taint {node.kubernetes.io/unreachable: }"
        assert taint in await outcome(world, "p")
        await world.restore_node("cpu")
        await asyncio.sleep(5)
        assert await outcome(world, "p") == "cpu"


@pytest.mark.parametrize("ends", ["succeed", "fail"])
async def test_a_pod_that_has_ended_takes_no_room(world: World, ends: str):
    async with world.nodes("kubelet", scheduling=True, shapes=(CPU,)):
        await world.create_pod("a", restartPolicy="Never", **asks(cpu="3"))
        await world.create_pod("b", **asks(cpu="3"))
        await asyncio.sleep(5)
        assert await outcome(world, "a") == "cpu"
        await world.instruct("a", ends)
        await asyncio.sleep(5)
        assert await outcome(world, "b") == "cpu"


async def test_a_claim_and_a_node_that_come_later_are_noticed(world: World):
    async with world.nodes("kubelet", scheduling=True, shapes=(CPU,)):
        volume = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
        await world.create_pod("p", volumes=[volume])
        await world.create_pod("large", **asks(cpu="32"))
        await asyncio.sleep(5)
        claim = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"]},
        }
        await world.user.create(CLAIMS, "default", claim)
        await asyncio.sleep(5)
        assert await outcome(world, "p") == "cpu"
        amounts = {"cpu": "64", "memory": "64Gi", "pods": "110"}
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "late"},
            "status": {"capacity": amounts, "allocatable": amounts},
        }
        await world.user.create(NODES, "", node)
        await asyncio.sleep(5)
        assert await outcome(world, "large") == "late"


async def test_why_a_pod_waits_is_an_event_too(world: World):
    async with world.nodes("kubelet", scheduling=True, shapes=(CPU,)):
        await world.create_pod("p", **asks(cpu="5"))
        await asyncio.sleep(5)
        found = await world.user.request_json("GET", "/api/v1/namespaces/default/events")
        [event] = found["items"]
        assert (event["reason"], event["type"]) == ("FailedScheduling", "Warning")
        assert event["message"] == await outcome(world, "p")


def test_a_pod_that_a_list_shows_in_place_of_another_of_its_name_has_the_room_alone():
    first, second = (
        msgspec.convert({"metadata": {"name": "a", "uid": uid}, "spec": on_cpu}, KubeletPod)
        for uid, on_cpu in (("1", asks(cpu="1") | {"nodeName": "cpu"}), ("2", asks(cpu="2")))
    )
    placed = Placements(frozenset())
    placed.put("cpu", first)
    placed(Updated(first, second))
    assert +placed.used["cpu"] == {}


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


async def test_a_label_that_comes_later_is_noticed(world: World):
    async with world.nodes("kubelet", scheduling=True):
        await register(world, "gpu")
        await world.create_pod("p", affinity=OF_PHI)
        await asyncio.sleep(5)
        patch = {"metadata": {"labels": {"workspace": "phi"}}}
        await world.user.merge_patch(NODES, "", "gpu", patch)
        await asyncio.sleep(5)
        assert await world.is_ready("p")
