"""`manta demo --kind workspace`: a model gets a GPU node, answers a question and is deleted.

The cloud is simulated: its first machine is out of stock, and the next one lacks its GPU plugin at
first. The model server is a process of this machine and only a stand-in for a model, which it
states in each answer. The exit status is 0 only if it answered, no surplus claim was created, and
nothing was left behind.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Literal

import msgspec
from prometheus_client import CollectorRegistry

from controller.command.development.demos.models import (
    DemoCloud,
    Waits,
    WorkspaceDemoSummary,
    WorkspaceReferee,
    WorkspaceSteps,
)
from controller.command.development.demos.real_ray import demo_with_processes
from controller.command.development.demos.steps import background
from controller.command.development.embedded_cluster import embedded_cluster
from controller.command.development.modelserver.image import model_server_image
from controller.command.development.process_node import images_for
from controller.command.kinds import KindSettings
from controller.command.manifests import load
from controller.command.run.operator import operator_for
from controller.devcluster.nodes import NodeSettings
from controller.kaito.api.definitions import kaito_definitions
from controller.kaito.api.options import KaitoOptions
from controller.kaito.provisioning.claims import ClaimSettings
from controller.kaito.workloads import base_image
from controller.kaito.workspace import WorkspaceSettings
from controller.kube.errors import ConfigurationError
from controller.ray.api import FeatureGates, custom_resource_definitions
from controller.ray.api.feature_gates import WORKSPACE
from controller.runtime.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from controller.command.development.demos.real_ray import MachineOptions
    from controller.command.development.process_node import ProcessNode
    from controller.command.development.view import Screen


_RETRY: Final = timedelta(seconds=3)
_NODES: Final = NodeSettings(scheduling=True, probe_pace=0.05)
_HURRIES: Final = (
    f"for a short demo: a failed claim is replaced after {_RETRY.seconds} s instead of 30 s, and "
    f"probes come {1 / _NODES.probe_pace:.0f} times as often"
)


class _Preset(msgspec.Struct):
    name: str


class _Inference(msgspec.Struct):
    preset: _Preset


class _Named(msgspec.Struct):
    name: str


class _Served(msgspec.Struct):
    """The part of a manifest that the demo reads."""

    kind: Literal["Workspace"]
    metadata: _Named
    inference: _Inference


async def workspace_demo(manifest: Path, machine: MachineOptions) -> int:
    """Run the demo and print its summary; returns the exit status.

    Args:
        manifest: a Workspace with a preset.
        machine: the options of this machine.

    Raises:
        ConfigurationError: the manifest holds anything else, or an option cannot be honoured.
    """
    document = _read(manifest)
    summary = WorkspaceDemoSummary()
    images = await images_for(machine.images, ray=False)
    return await demo_with_processes(
        lambda node, screen: _play(document, node, screen, summary),
        summary,
        images,
        machine.isolation,
    )


def _read(manifest: Path) -> dict[str, Any]:
    """Return the Workspace of a manifest.

    Raises:
        ConfigurationError: it holds none that the demo can run.
    """
    documents = load(manifest)
    try:
        msgspec.convert(documents, tuple[_Served])
    except msgspec.ValidationError as error:
        raise ConfigurationError(
            f"{manifest} is not one Workspace with a preset: {error}"
        ) from error
    return documents[0]


async def _play(
    document: dict[str, Any], node: ProcessNode, screen: Screen, summary: WorkspaceDemoSummary
) -> None:
    """Start everything, run the steps, stop everything."""
    screen.change(_HURRIES)
    options, registry = KaitoOptions(), CollectorRegistry()
    image = base_image(options).rpartition(":")[0]
    node.add_image(image, model_server_image(node.folder / "model-server"))
    settings = WorkspaceSettings(options, ClaimSettings(first_retry=_RETRY))
    gates = FeatureGates.parse(f"{WORKSPACE}=true")
    async with (
        embedded_cluster(
            port=0,
            crds=[*custom_resource_definitions(), *kaito_definitions()],
            nodes=_NODES,
            process_node=node,
            claims=DemoCloud(),
        ) as cluster,
        operator_for(
            cluster.credentials(),
            Settings(metrics_address="", health_address=""),
            user_agent="manta-operator",
            kind_settings=replace(KindSettings.from_environment(gates), workspace=settings),
            registry=registry,
        ) as operator,
        asyncio.TaskGroup() as tasks,
    ):
        play = WorkspaceSteps(cluster, document, screen, summary, Waits(registry))
        referee = WorkspaceReferee()
        cluster.server.on_write.append(referee)
        stop = asyncio.Event()
        running = tasks.create_task(operator.run(stop))
        async with background(tasks, *(each.run() for each in play.informers())):
            await play.run(tasks)
        summary.wrong = referee.wrong()
        stop.set()
        await running
