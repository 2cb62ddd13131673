"""What an API server holds of Kaito's kinds once a model is served: taken from a life of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import msgspec

from controller.kaito.api import labels
from controller.kaito.api.definitions import kaito_definitions
from controller.kaito.api.inferenceset import INFERENCE_SETS
from controller.kaito.api.options import KaitoOptions, Provisioner
from controller.kaito.api.workspace import WORKSPACES
from controller.kaito.inferenceset.kind import InferenceSetKind
from controller.kaito.workspace.kind import WorkspaceKind
from controller.kube.resources import CONFIG_MAPS, NODES, PODS, STATEFUL_SETS, Resource
from controller.runtime.kind import Kind
from controller.testing.virtual_time import VirtualLoop
from tests.integration.harness import World, embedded_world, install_crds
from tests.integration.inferencesets import set_manifest
from tests.integration.workspace_pools import PoolWorkspaces, definitions
from tests.integration.workspaces import Workspaces, manifest, served
from tests.kaito.support import inference, tuning
from tests.kaito.workspace.given_pool import POOLS

Json = dict[str, Any]
Objects = dict["Resource[Any]", list[Json]]
OWN_NODES = KaitoOptions(provisioner=Provisioner.OWN_NODES)
NAME = "phi"
PEAK = {"description": "Peak tokens per minute", "value": "120000"}
MEASURED = {"performance": {"metrics": {"peakTokensPerMinute": PEAK}}}


class Life(msgspec.Struct, frozen=True):
    """What a user creates, and who operates it.

    Attributes:
        world: of Workspaces and what makes their nodes.
        condition: the one that is true in the end.
    """

    body: Json
    settings: KaitoOptions | None = None
    world: Callable[[World], Workspaces] = Workspaces
    condition: str = "WorkspaceSucceeded"

    @property
    def primary(self) -> Resource[Any]:
        return INFERENCE_SETS if self.body["kind"] == INFERENCE_SETS.kind else WORKSPACES

    def kinds(self) -> list[Kind[Any]]:
        workspaces = WorkspaceKind(self.settings)
        return [InferenceSetKind(), workspaces] if self.primary == INFERENCE_SETS else [workspaces]


SERVED = inference(
    config="options", adapters=[{"source": {"name": "a", "image": "example.com/a:1"}}]
)
LIVES = {
    "served Workspace": Life(manifest(NAME, inference=SERVED)),
    "Workspace on two nodes": Life(manifest(NAME, 2)),
    "Workspace with a NodePool": Life(manifest(NAME), POOLS, PoolWorkspaces),
    "Workspace on own nodes": Life(
        manifest(NAME, resource={"labelSelector": {"matchLabels": {"apps": NAME}}}), OWN_NODES
    ),
    "tuning Workspace": Life(manifest(NAME, inference=None, tuning=tuning())),
    "served InferenceSet": Life(set_manifest(NAME), condition="InferenceSetReady"),
}


def lived(life: Life) -> Objects:
    """What the kind of the object can read a minute after the object has become well."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(_live(life))


async def _live(life: Life) -> Objects:
    async with AsyncExitStack() as stack:
        world = await stack.enter_async_context(embedded_world())
        spaces = life.world(world)
        await install_crds(world, *kaito_definitions())
        await spaces.install(*(definitions() if life.settings is POOLS else ()))
        await stack.enter_async_context(spaces.provisioner())
        stack.enter_context(served(world))
        await _create_what_it_refers_to(world)
        kinds = life.kinds()
        world.start_operator(kinds=kinds)
        body = {name: value for name, value in life.body.items() if value is not None}
        await world.user.create(life.primary, world.namespace, body)
        if "tuning" in body:
            await world.settle(60)
        else:
            await world.eventually(lambda: _is_true(world, life), seconds=300, pause=1)
        await _run_servers(world)
        await world.settle(60)
        return {each: _readable(world, each, selector) for each, selector in _watched(kinds[0])}


async def _create_what_it_refers_to(world: World) -> None:
    """A ConfigMap of options, and a node that has not been claimed."""
    data = {"inference_config.yaml": "vllm:\n  max-model-len: 4096\n"}
    body = {"metadata": {"name": "options"}, "data": data}
    await world.user.create(CONFIG_MAPS, world.namespace, body)
    gpus = {"product": "NVIDIA-A100-SXM4-80GB", "count": "1", "memory": "81920"}
    marks = {"apps": NAME, **{f"nvidia.com/gpu.{key}": gpus[key] for key in gpus}}
    status = {"conditions": [{"type": "Ready", "status": "True"}]}
    node = {"metadata": {"name": "mine", "labels": marks}, "status": status}
    await world.user.create(NODES, "", node)


async def _run_servers(world: World) -> None:
    """Have a pod of each server run, and its Workspace measured."""
    for server in (await world.user.list(STATEFUL_SETS, world.namespace)).items:
        name = server.metadata.name
        owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "controller": True}
        owner |= {"name": name, "uid": server.metadata.uid}
        metadata = {"name": f"{name}-0", "labels": {labels.WORKSPACE: name}}
        gates = [{"name": "example.com/by-hand"}]  # no simulated kubelet runs it
        body = {
            "metadata": metadata | {"ownerReferences": [owner]},
            "spec": {"schedulingGates": gates, "containers": [{"name": name, "image": "x"}]},
        }
        await world.user.create(PODS, world.namespace, body)
        await _write_status(world, PODS, f"{name}-0", _running(name))
        await _write_status(world, WORKSPACES, name, MEASURED)


def _running(container: str) -> Json:
    """The status of a pod whose server has failed once and runs again."""
    end = {"exitCode": 3, "reason": "Error", "message": "no memory"}
    return {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [
            {
                "name": container,
                "image": "x",
                "imageID": "x",
                "ready": True,
                "restartCount": 1,
                "state": {"running": {"startedAt": "2026-01-01T00:00:30Z"}},
                "lastState": {"terminated": end},
            }
        ],
    }


async def _write_status(world: World, resource: Resource[Any], name: str, status: Json) -> None:
    patch = {"status": status}
    await world.user.merge_patch(resource, world.namespace, name, patch, subresource="status")


async def _is_true(world: World, life: Life) -> bool:
    found = await world.user.get(life.primary, world.namespace, NAME)
    return any(
        (each["type"], each["status"]) == (life.condition, "True")
        for each in found.status.get("conditions", ())
    )


def _watched(kind: Kind[Any]) -> list[tuple[Resource[Any], str]]:
    """The resources that a kind reads, and the label that their objects have."""
    return [(kind.primary, ""), *((each.resource, each.label_selector) for each in kind.owned)]


def _readable(world: World, resource: Resource[Any], label: str) -> list[Json]:
    assert world.server is not None
    stored = world.server.store.table(
        str(msgspec.structs.replace(resource, part=""))
    ).items.values()
    return [
        msgspec.json.decode(msgspec.json.encode(each.object))
        for each in stored
        if not label or label in each.object["metadata"].get("labels", {})
    ]
