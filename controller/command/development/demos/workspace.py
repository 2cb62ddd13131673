"""`manta demo --kind workspace`: a model gets a GPU node, answers a question and goes.

The cloud is simulated: its first machine is out of stock, and the next comes without its GPU plugin
at first. The model server is a process of this machine, and a stand-in for a model, as it says
itself. The exit status is 0 only if it answered, if no claim too many was made, and if nothing was
left behind.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Literal

import msgspec
from prometheus_client import CollectorRegistry

from controller.command.development.demos.background import background
from controller.command.development.demos.chat import ChatClient
from controller.command.development.demos.informers import informer_for
from controller.command.development.demos.pod_log import follow_log
from controller.command.development.demos.process_demo import demo_with_processes
from controller.command.development.demos.steps import Step
from controller.command.development.demos.summary import DemoSummary
from controller.command.development.demos.workspace_cloud import DemoCloud
from controller.command.development.demos.workspace_waits import Wait, Waits
from controller.command.development.embedded_cluster import embedded_cluster
from controller.command.development.images import images_for
from controller.command.development.modelserver.image import model_server_image
from controller.command.development.view import WorkspaceView
from controller.command.kinds import KindSettings
from controller.command.manifests import load
from controller.command.operator import operator_for
from controller.devcluster.nodes import NodeSettings
from controller.kaito.api.definitions.crds import kaito_definitions
from controller.kaito.api.node import NODES
from controller.kaito.api.nodeclaim import NODE_CLAIMS
from controller.kaito.api.options import KaitoOptions
from controller.kaito.api.workspace import WORKSPACES
from controller.kaito.provisioning.decision import ClaimSettings
from controller.kaito.workloads.images import base_image
from controller.kaito.workspace import WorkspaceSettings
from controller.kube.errors import ConfigurationError
from controller.kube.resources import PODS, STATEFUL_SETS
from controller.ray.api import FeatureGates, custom_resource_definitions
from controller.ray.api.feature_gates import WORKSPACE
from controller.runtime.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any

    from controller.command.development.demos.real_ray import MachineOptions
    from controller.command.development.embedded_cluster import EmbeddedCluster
    from controller.command.development.process_node import ProcessNode
    from controller.command.development.view import Screen
    from informers import SharedInformer

NAMESPACE: Final = "default"
QUESTION: Final = "What does a controller do while it waits?"
_STEP_SECONDS: Final = 40.0
_RETRY: Final = timedelta(seconds=3)
_NODES: Final = NodeSettings(node_labels=True, probe_pace=0.05)
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


@dataclass(slots=True)
class WorkspaceDemoSummary(DemoSummary):
    """The waits of the demo, and the answer of the server."""

    waits: list[Wait] = field(default_factory=list[Wait])
    model: str = ""
    answer: str = ""

    def text(self) -> str:
        """The summary as plain lines."""
        told = [f"asked {self.model}: {QUESTION}", f"answer: {self.answer}"] if self.model else []
        waited = [line for wait in self.waits for line in wait.lines()]
        return "\n".join([*self.steps.lines(), "waited", *waited, *told, *self.verdict()])


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
    """The Workspace of a manifest.

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
        play = _Play(cluster, document, screen, summary, Waits(registry))
        stop = asyncio.Event()
        running = tasks.create_task(operator.run(stop))
        async with background(tasks, *(each.run() for each in play.informers())):
            await play.run(tasks)
        stop.set()
        await running


def wrong_claims(made: int, most: int) -> list[str]:
    """Sentences about the claims that were made in all, and the most at a time, if wrong."""
    if (made, most) == (2, 1):
        return []
    return [f"{made} claims were made, {most} at a time, instead of two one after the other"]


class _Play:
    """The steps.

    Args:
        cluster: the embedded cluster.
        document: the Workspace.
        screen: where steps are announced.
        summary: gets the results.
        waits: measures.
    """

    def __init__(
        self,
        cluster: EmbeddedCluster,
        document: dict[str, Any],
        screen: Screen,
        summary: WorkspaceDemoSummary,
        waits: Waits,
    ) -> None:
        self._cluster = cluster
        self._user = cluster.client("demo-user")
        self._document = document
        self._screen = screen
        self._summary = summary
        self._waits = waits
        self._view = WorkspaceView(str(document["metadata"]["name"]), screen)
        self._chat = ChatClient(self._user, NAMESPACE, self._view.name)

    def informers(self) -> Iterator[SharedInformer[Any]]:
        """Informers that keep the view up to date."""
        view = self._view
        yield informer_for(self._user, WORKSPACES, view.saw_workspace)
        yield informer_for(self._user, NODE_CLAIMS, view.saw_claim, namespace="")
        yield informer_for(self._user, NODES, view.saw_node, namespace="")
        yield informer_for(self._user, STATEFUL_SETS, view.saw_server)
        yield informer_for(self._user, PODS, view.saw_pod)

    async def run(self, tasks: asyncio.TaskGroup) -> None:
        """Run all steps.

        Raises:
            StepFailed: one did not reach its goal.
        """
        self._summary.waits = self._waits.done
        await self._get_nodes()
        await self._serve()
        async with background(tasks, self._follow_log()):
            await self._ask()
        await self._delete()

    async def _get_nodes(self) -> None:
        """Have a Workspace and wait for its node, which may not serve before it has GPUs."""
        view = self._view
        with self._waits.measure(
            "a NodeClaim that is ready",
            "until 0.7 the worker watched the claims for up to 240 s; there are five workers",
        ):
            async with self._step("created -> out of stock"):
                await self._user.create(WORKSPACES, NAMESPACE, self._document)
                await view.until(
                    lambda v: v.condition("NodeClaimReady")[1] == "InsufficientCapacity"
                )
            async with self._step("another claim -> a node"):
                await view.until(lambda v: v.is_true("NodeClaimReady"))
        with self._waits.measure(
            "the GPU plugin of the node",
            "until 0.7 the worker looked for the plugin for up to 60 s; since then each Workspace "
            "comes back every 2 s",
        ):
            async with self._step("no GPU plugin -> GPUs"):
                await view.until(lambda v: v.condition("NodesReady")[1] == "NodePluginsNotReady")
                if view.server is not None:
                    self._summary.wrong.append("there was a server before its node had GPUs")
                await view.until(lambda v: v.is_true("ResourceReady"))

    async def _serve(self) -> None:
        with self._waits.measure(
            "a model server that is ready",
            "until 0.9 the worker waited for it until a time-out",
        ):
            async with self._step("server created -> ready"):
                await self._view.until(lambda v: v.is_true("InferenceReady"))

    async def _ask(self) -> None:
        async with self._step("question -> answer"):
            models = await self._chat.models()
            self._view.show(f"GET /v1/models: {', '.join(models)}")
            self._summary.model = models[0]
            self._view.show(f"POST /v1/chat/completions: {QUESTION}")
            self._summary.answer = await self._chat.ask(models[0], QUESTION)
            self._view.show(f"answer: {self._summary.answer}")

    async def _delete(self) -> None:
        view = self._view
        async with self._step("deleted -> nothing left"):
            await self._user.delete(WORKSPACES, NAMESPACE, view.name)
            await view.until(lambda v: v.is_empty)
        self._summary.wrong += wrong_claims(len(view.claims_seen), view.most_claims)

    async def _follow_log(self) -> None:
        """Show what the server prints."""
        pod = await self._user.get(PODS, NAMESPACE, f"{self._view.name}-0")
        async for line in follow_log(self._cluster.server, pod, self._view.name):
            self._view.show(f"| {line}")

    def _step(self, name: str) -> Step:
        return Step(name, _STEP_SECONDS, self._screen, self._summary.steps)
