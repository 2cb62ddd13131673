"""Every manifest of Kaito's `examples/` reaches the state that it should.

`MANTA_SAMPLES` names a folder with them; they are not part of this repository.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from controller.kaito.api.definitions import kaito_definitions
from controller.kaito.api.inferenceset import INFERENCE_SETS
from controller.kaito.api.options import KaitoOptions
from controller.kaito.api.workspace import WORKSPACES
from controller.kaito.inferenceset.kind import InferenceSetKind
from controller.kaito.presets.gpus import find_instance_type
from controller.kaito.workspace.kind import WorkspaceKind
from controller.kube.resources import CLAIMS, CONFIG_MAPS, NODES, SECRETS, Resource
from devcluster.karpenter import ClaimBehaviour, node_claim_definition
from tests.integration.harness import World, install_crds
from tests.integration.workspaces import Cloud, Workspaces, opened, served
from tests.kaito.examples import REFUSED, cases, documents, need_samples, options_of

Json = dict[str, Any]

pytestmark = [pytest.mark.embedded_only, pytest.mark.slow, need_samples]

RESOURCES = {each.kind: each for each in (CLAIMS, CONFIG_MAPS, INFERENCE_SETS, SECRETS, WORKSPACES)}
UNKNOWN_MACHINE = "Standard_NC6s_v3"
"""An instance type of an example that Kaito's tables lack as well."""


def resource_of(document: Json) -> Resource[Any]:
    """The resource, in the version of the document."""
    version = document["apiVersion"].rpartition("/")[2]
    return replace(RESOURCES[document["kind"]], version=version)


def own_node(resource: Json, name: str = "own") -> Json:
    """A node with eight large GPUs that the Workspace selects."""
    gpus = {"nvidia.com/gpu": "8"}
    found = {"product": "NVIDIA-A100-SXM4-80GB", "count": "8", "memory": "81920"}
    labels = {f"nvidia.com/gpu.{key}": value for key, value in found.items()}
    labels |= resource["labelSelector"]["matchLabels"]
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": gpus, "allocatable": gpus, "conditions": [ready]},
    }


async def status_after(world: World, raw: Json, others: list[Json], options: KaitoOptions) -> Json:
    """The status five minutes after the manifest was applied."""
    found = find_instance_type(options.cloud, raw["resource"].get("instanceType", ""))
    cloud = Cloud(ClaimBehaviour(gpus=found.gpus.count if found else 1))
    async with opened(world, cloud) as spaces:
        operator = world.start_operator(kinds=[WorkspaceKind(options)])
        if options.has_own_nodes:
            await world.user.create(NODES, "", own_node(raw["resource"]))
        with served(world):
            for each in (*others, raw):
                await world.user.create(resource_of(each), world.namespace, each)
            await world.settle(300)
        assert operator.running
        return (await spaces.workspace(raw["metadata"]["name"])).status


@pytest.mark.parametrize(("file", "raw"), cases("Workspace"))
async def test_kaitos_example_reaches_its_state(world: World, file: Path, raw: Json):
    others = [each for each in documents(file) if each["kind"] != "Workspace"]
    status = await status_after(world, raw, others, options_of(file, raw))
    name, told = raw["metadata"]["name"], [each["message"] for each in status["conditions"]]
    words = REFUSED.get(name, "")
    if raw["resource"].get("instanceType") == UNKNOWN_MACHINE:
        words = f"Unsupported SKU '{UNKNOWN_MACHINE}'"
    if "arc" in file.parent.name and not words:
        words = "nodes cannot be claimed on arc; bring your own nodes"
    if words:
        assert any(words in each for each in told), status
    else:
        assert status["state"] == ("Succeeded" if "tuning" in raw else "Ready"), status


@pytest.mark.parametrize(("file", "raw"), cases(folder="arc"))
async def test_an_example_of_arc_is_served_on_nodes_of_ones_own(
    world: World, file: Path, raw: Json
):
    raw = copy.deepcopy(raw)
    del raw["resource"]["instanceType"]
    others = [each for each in documents(file) if each["kind"] != "Workspace"]
    status = await status_after(world, raw, others, options_of(file, raw))
    if raw["metadata"]["name"] not in REFUSED:
        assert status["state"] == "Ready", status


@pytest.mark.parametrize(("file", "raw"), cases("InferenceSet"))
async def test_kaitos_example_of_several_replicas_reaches_its_state(
    world: World, file: Path, raw: Json
):
    options, spec = options_of(file, raw), raw["spec"]
    await install_crds(world, *kaito_definitions(), node_claim_definition())
    spaces = Workspaces(world, Cloud())
    async with spaces.provisioner():
        operator = world.start_operator(
            kinds=[
                WorkspaceKind(options),
                InferenceSetKind(options),
            ]
        )
        for number in range(spec["replicas"] if options.has_own_nodes else 0):
            await world.user.create(NODES, "", own_node(spec, f"own-{number}"))
        with served(world):
            for each in documents(file):
                await world.user.create(resource_of(each), world.namespace, each)
            await world.settle(300)
        assert operator.running
        found = await world.user.get(INFERENCE_SETS, world.namespace, raw["metadata"]["name"])
        assert found.status["readyReplicas"] == spec["replicas"], found.status
