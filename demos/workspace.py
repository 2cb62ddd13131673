"""The demo of a model that gets a GPU node, answers a question and is deleted."""

from __future__ import annotations

import asyncio
import shlex
import shutil
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar, Final

from msgspec import Struct
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from controller.apimachinery.custom_object import conditions_of, dig
from controller.command.kinds import KindSettings
from controller.command.status.objects import ObjectStatus, claim_status, workload_status
from controller.kaito.api import labels
from controller.kaito.api.definitions import kaito_definitions
from controller.kaito.api.karpenter import NODE_CLAIMS, NODES, GpuNode
from controller.kaito.api.options import ClaimSettings, KaitoOptions
from controller.kaito.api.workspace import WORKSPACES, Workspace
from controller.kaito.workloads.pods import base_image
from controller.kaito.workspace.kind import WorkspaceKind
from controller.kube.errors import ConfigurationError, StatusError
from controller.kube.resources import PODS, STATEFUL_SETS
from controller.ray.api import FeatureGates
from controller.ray.api.feature_gates import WORKSPACE
from demos import model_server
from demos.stage import NAMESPACE, Demo, StepFailed, background
from demos.view import condition_words, pod_words
from devcluster.apiserver import StoredEvent
from devcluster.karpenter import ClaimBehaviour, ProvisionedClaim
from devcluster.nodes import NodeSettings
from devcluster.processes.environment import Image

_RETRY: Final = timedelta(seconds=3)
_NODES: Final = NodeSettings(scheduling=True, probe_pace=0.05)
_HURRIES: Final = (
    f"for a short demo: a failed claim is replaced after {_RETRY.seconds} s instead of 30 s, and "
    f"probes come {1 / _NODES.probe_pace:.0f} times as often"
)
_QUESTION: Final = "What does a controller do while it waits?"
_PAUSE: Final = 0.2  # seconds until a service whose pods are not known yet is asked again


# What is shown.


def workspace_words(workspace: Workspace) -> dict[str, str]:
    """Return the conditions of a Workspace, without the one that says nothing beside them."""
    words = {f"Workspace {workspace.metadata.name}": "there"} | condition_words(workspace)
    words.pop("condition WorkspaceSucceeded", None)
    return words


def part_words(status: ObjectStatus) -> dict[str, str]:
    """Return the state of what belongs to a Workspace, as `manta status` has it."""
    more = ", ".join(filter(None, (status.detail, status.cause)))
    return {f"{status.kind} {status.name}": f"{status.state}: {more}" if more else status.state}


def node_words(node: GpuNode) -> dict[str, str]:
    """Return the state of a node that came with a claim."""
    if labels.WORKSPACE not in (node.metadata.labels or {}):
        return {}
    ready = "Ready" if node.status.is_true("Ready") else "not ready"
    gpus = int(node.status.capacity.gpus)
    offer = f"offers {gpus} GPU" if gpus else "without its GPU plugin"
    return {f"Node {node.metadata.name}": f"{ready}, {offer}"}


# The waits, and the time for which they held a worker of the operator, by its own metrics.


class MeasuredWait(Struct, frozen=True):
    """A wait, what Kaito's worker does or did meanwhile, and what it cost Manta, in seconds."""

    awaited: str
    kaito: str
    seconds: float
    reconciles: int
    held: float

    def lines(self) -> Iterator[str]:
        """Yield the lines of the summary."""
        yield f"{self.seconds:5.1f} s for {self.awaited}"
        yield f"        Kaito: {self.kaito}"
        held = f"held a worker for {self.held:.2f} s in all"
        yield f"        Manta: {self.reconciles} reconciles {held}"


@contextmanager
def measured(
    waits: list[MeasuredWait], registry: CollectorRegistry, awaited: str, kaito: str
) -> Generator[None]:
    """Measure the wait that the block is; one that fails is not recorded."""

    def sample(part: str) -> float:
        name = f"controller_runtime_reconcile_time_seconds_{part}"
        return registry.get_sample_value(name, {"controller": WorkspaceKind.name}) or 0.0

    clock = asyncio.get_running_loop().time
    began, count, held = clock(), sample("count"), sample("sum")
    yield
    reconciles = int(sample("count") - count)
    waits.append(MeasuredWait(awaited, kaito, clock() - began, reconciles, sample("sum") - held))


# The cloud: its first machine is out of stock, the next lacks its plugin at first.

OUT_OF_STOCK: Final = ClaimBehaviour(node_after=1.5, stock_out=True, gone_after=1.0)
LATE_PLUGIN: Final = ClaimBehaviour(node_after=3.0, plugin_after=3.0, gone_after=1.0)


class DemoCloud:
    """Decides what happens to each claim, by the order in which they were first seen."""

    def __init__(self) -> None:
        self._order: dict[str, int] = {}

    def __call__(self, claim: ProvisionedClaim) -> ClaimBehaviour:
        """Let the first of all claims be out of stock."""
        number = self._order.setdefault(claim.metadata.uid, len(self._order))
        return OUT_OF_STOCK if number == 0 else LATE_PLUGIN


class WorkspaceReferee:
    """Sees every write, in order: a surplus claim, and a server whose node has no GPUs yet."""

    def __init__(self) -> None:
        self._present: set[str] = set()
        self._made = 0
        self._most = 0
        self._has_gpus = False
        self._came_early = False

    def __call__(self, event: StoredEvent) -> None:
        """Check a write."""
        obj = event.current.object
        if event.table == str(NODE_CLAIMS):
            self._made += event.previous is None
            change = self._present.discard if event.type == "DELETED" else self._present.add
            change(obj["metadata"]["name"])
            self._most = max(self._most, len(self._present))
        elif event.table == str(NODES):
            self._has_gpus |= dig(obj, "status", "capacity", "nvidia.com/gpu") is not None
        elif event.table == str(STATEFUL_SETS) and event.previous is None:
            self._came_early |= not self._has_gpus

    def wrong(self) -> list[str]:
        """Return sentences about observed violations."""
        found: list[str] = []
        if (self._made, self._most) != (2, 1):
            found.append(
                f"{self._made} claims were created, {self._most} at a time, instead of 2, "
                "one after the other"
            )
        if self._came_early:
            found.append("the server was created before its node offered GPUs")
        return found


def model_server_image(folder: Path) -> Image:
    """Make an environment, in a new folder, whose `python3` is the stand-in for a model server.

    Nothing outside of the folder is needed but the interpreter: containers have a /tmp of their
    own, where this program itself may be.

    Raises:
        OSError: it cannot be made.
    """
    programs = folder / "bin"
    programs.mkdir(parents=True)
    program = shutil.copy(model_server.__file__, programs)
    command = shlex.join([str(Path(sys.executable).resolve()), "-I", str(program)])
    python = programs / "python3"
    python.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    python.chmod(0o755)
    return Image(folder)


class WorkspaceDemo(Demo):
    """A model gets a GPU node, answers a question and is deleted.

    The cloud is simulated. The model server is a process of this machine and only a stand-in for a
    model, which it states in each answer. It works only if it answered, and if no surplus claim
    was created.
    """

    kind = WORKSPACES
    words: ClassVar = {
        WORKSPACES: workspace_words,
        NODE_CLAIMS: lambda claim: part_words(claim_status(claim)),
        NODES: node_words,
        STATEFUL_SETS: lambda server: part_words(workload_status(server)),
        PODS: pod_words,
    }
    pods = "processes"
    seconds = 40.0
    nodes = _NODES

    def __init__(self, manifest: Path) -> None:
        super().__init__(manifest)
        if not isinstance(dig(self.object, "inference", "preset", "name"), str):
            raise ConfigurationError(f"{manifest} is not one Workspace with a preset")
        self.claims = DemoCloud()
        self.registry = self._metrics = CollectorRegistry()
        self.waits: list[MeasuredWait] = []
        self.answer: tuple[str, ...] = ()
        self._reasons: set[tuple[str, str]] = set()

    def definitions(self) -> list[dict[str, Any]]:
        """Return the definitions of Ray's kinds and of Kaito's."""
        return [*super().definitions(), *kaito_definitions()]

    def kind_settings(self) -> KindSettings:
        """Return settings by which Workspaces are served, and a failed claim replaced soon."""
        kaito = KaitoOptions(claims=ClaimSettings(first_retry=_RETRY))
        gates = FeatureGates.parse(f"{WORKSPACE}=true")
        return replace(KindSettings.from_environment(gates), kaito=kaito)

    async def play(self) -> None:
        """Have a Workspace, wait for its node and its server, and ask the model."""
        self.screen.change(_HURRIES)
        image = base_image(KaitoOptions()).rpartition(":")[0]
        self.node.add_image(image, model_server_image(self.node.folder / "model-server"))
        referee = WorkspaceReferee()
        self.cluster.server.on_write.append(referee)
        self.view.on_change.append(self._note_reasons)
        await self._wait_for_nodes()
        with self._measured(
            "a model server that is ready",
            "until 0.9 the worker waited for it until a time-out",
        ):
            await self.reach("server created -> ready", lambda: self._is_true("InferenceReady"))
        async with background(self.tasks, self._show_log()), self.step("question -> answer"):
            await self.ask_model(_QUESTION)
        async with self.step("deleted -> nothing left"):
            await self.remove()
        self.wrong += referee.wrong()

    def counts(self) -> Iterator[str]:
        """Yield what was waited for, and the answer."""
        if self.waits:
            yield "waited"
        for each in self.waits:
            yield from each.lines()
        if self.answer:
            model, question, answer = self.answer
            yield from (f"asked {model}: {question}", f"answer: {answer}")

    async def _wait_for_nodes(self) -> None:
        with self._measured(
            "a NodeClaim that is ready",
            "until 0.7 the worker watched the claims for up to 240 s; there are five workers",
        ):
            out_of_stock = ("NodeClaimReady", "InsufficientCapacity")
            await self.reach(
                "created -> out of stock", lambda: out_of_stock in self._reasons, self.create()
            )
            await self.reach("another claim -> a node", lambda: self._is_true("NodeClaimReady"))
        with self._measured(
            "the GPU plugin of the node",
            "until 0.7 the worker looked for the plugin for up to 60 s; since then each Workspace "
            "comes back every 2 s",
        ):
            no_plugin = ("NodesReady", "NodePluginsNotReady")
            await self.reach(
                "no GPU plugin -> GPUs",
                lambda: no_plugin in self._reasons and self._is_true("ResourceReady"),
            )

    async def ask_model(self, question: str) -> None:
        """Ask the model as soon as its service leads to a ready pod, as OpenAI's clients do.

        Raises:
            StepFailed: there is no answer.
        """
        service = f"{self.name}:80"
        while True:
            try:
                served = (await self.ask(service, "GET", "/v1/models")).get("data")
                break
            except StatusError:
                await asyncio.sleep(_PAUSE)
        model = dig(served, 0, "id")
        if not isinstance(model, str):
            raise StepFailed("the model server serves no model")
        self.view.show(f"GET /v1/models: {model}")
        self.view.show(f"POST /v1/chat/completions: {question}")
        body = {"model": model, "messages": [{"role": "user", "content": question}]}
        said = await self.ask(service, "POST", "/v1/chat/completions", body)
        answer = dig(said, "choices", 0, "message", "content")
        if not isinstance(answer, str):
            raise StepFailed(f"the model server gave no answer: {said}")
        self.view.show(f"answer: {answer}")
        self.answer = (model, question, answer)

    def _measured(self, awaited: str, kaito: str) -> Any:
        return measured(self.waits, self._metrics, awaited, kaito)

    def _note_reasons(self) -> None:
        """Remember all reasons of conditions: some are over before somebody looks."""
        workspace = self.view.one(WORKSPACES)
        for each in conditions_of(workspace) if workspace else ():
            self._reasons.add((str(each.get("type")), str(each.get("reason"))))

    def _is_true(self, condition: str) -> bool:
        return self.view.is_true(WORKSPACES, condition)

    async def _show_log(self) -> None:
        """Show what the server prints."""
        pod = await self.user.get(PODS, NAMESPACE, f"{self.name}-0")
        async for line in self.follow_log(pod, self.name):
            self.view.show(f"| {line}")
