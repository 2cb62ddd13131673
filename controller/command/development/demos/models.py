"""The steps of the demo of Workspaces: a cloud, a model server, a referee."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec

from controller.command.development.demos.steps import (
    DemoSummary,
    Step,
    StepFailed,
    background,
    follow_log,
    informer_for,
)
from controller.command.development.view import WorkspaceView
from controller.devcluster.karpenter import ClaimBehaviour
from controller.kaito.api.karpenter import NODE_CLAIMS, NODES
from controller.kaito.api.workspace import WORKSPACES
from controller.kaito.workspace import WorkspaceKind
from controller.kube.errors import StatusError
from controller.kube.resources import PODS, SERVICES, STATEFUL_SETS

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from prometheus_client import CollectorRegistry

    from controller.command.development.embedded_cluster import EmbeddedCluster
    from controller.command.development.view import Screen
    from controller.devcluster.apiserver import StoredEvent
    from controller.devcluster.karpenter import ProvisionedClaim
    from controller.kube.client import Client
    from informers import SharedInformer


# The waits of a demo, and the time for which they held a worker of the operator.
#
# The numbers of Manta are the operator's own metrics.

_SECONDS: Final = "controller_runtime_reconcile_time_seconds"


@dataclass(frozen=True, slots=True)
class MeasuredWait:
    """A wait, with what it cost.

    Attributes:
        awaited: what was waited for.
        kaito: what Kaito's worker does, or did in older versions, meanwhile.
        seconds: length of the wait.
        reconciles: number of Manta's reconciles meanwhile.
        held: seconds that these took together.
    """

    awaited: str
    kaito: str
    seconds: float
    reconciles: int
    held: float

    def lines(self) -> list[str]:
        """Return the lines of the summary."""
        manta = f"{self.reconciles} reconciles held a worker for {self.held:.2f} s in all"
        return [
            f"{self.seconds:5.1f} s for {self.awaited}",
            f"        Kaito: {self.kaito}",
            f"        Manta: {manta}",
        ]


class Waits:
    """Measures waits.

    Args:
        registry: registry of the operator.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self.done: list[MeasuredWait] = []

    @contextmanager
    def measure(self, awaited: str, kaito: str) -> Generator[None]:
        """Measure the wait that the block is; one that fails is not recorded."""
        clock = asyncio.get_running_loop().time
        began, reconciles, held = clock(), self._sample("count"), self._sample("sum")
        yield
        self.done.append(
            MeasuredWait(
                awaited,
                kaito,
                clock() - began,
                int(self._sample("count") - reconciles),
                self._sample("sum") - held,
            )
        )

    def _sample(self, part: str) -> float:
        marks = {"controller": WorkspaceKind.name}
        return self._registry.get_sample_value(f"{_SECONDS}_{part}", marks) or 0.0


# The summary of the Workspace demo.


@dataclass(slots=True)
class WorkspaceDemoSummary(DemoSummary):
    """The waits of the demo, and the answer of the server."""

    waits: list[MeasuredWait] = field(default_factory=list[MeasuredWait])
    model: str = ""
    question: str = ""
    answer: str = ""

    def text(self) -> str:
        """Return the summary as plain lines."""
        lines = [*self.steps.lines(), "waited"]
        lines += [line for wait in self.waits for line in wait.lines()]
        if self.model:
            lines += [f"asked {self.model}: {self.question}", f"answer: {self.answer}"]
        return "\n".join([*lines, *self.verdict()])


# The cloud of the Workspace demo: its first machine is out of stock, the next lacks its plugin.

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


# The referee of the Workspace demo: it sees every write, in order.

_CLAIMS: Final = 2  # the first is out of stock
_GPU: Final = "nvidia.com/gpu"


class WorkspaceReferee:
    """Detects a surplus claim, and a server whose node has no GPUs yet."""

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
            self._count(obj["metadata"]["name"], event)
        elif event.table == str(NODES):
            self._has_gpus |= _GPU in _capacity(obj)
        elif event.table == str(STATEFUL_SETS) and event.previous is None:
            self._came_early |= not self._has_gpus

    def _count(self, name: str, event: StoredEvent) -> None:
        self._made += event.previous is None
        if event.type == "DELETED":
            self._present.discard(name)
        else:
            self._present.add(name)
        self._most = max(self._most, len(self._present))

    def wrong(self) -> list[str]:
        """Return sentences about observed violations."""
        found: list[str] = []
        if (self._made, self._most) != (_CLAIMS, 1):
            found.append(
                f"{self._made} claims were created, {self._most} at a time, instead of {_CLAIMS}, "
                "one after the other"
            )
        if self._came_early:
            found.append("the server was created before its node offered GPUs")
        return found


def _capacity(node: dict[str, Any]) -> dict[str, Any]:
    return node.get("status", {}).get("capacity") or {}


# A client of a model server: OpenAI's `/v1/models` and `/v1/chat/completions`.

_PORT: Final = 80
_PAUSE: Final = 0.2  # seconds until a service whose pods are not known yet is asked again


class ChatFailed(StepFailed):
    """The server refused a request, or said something unexpected."""


class _Model(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Model]


class _Message(msgspec.Struct):
    content: str


class _Choice(msgspec.Struct):
    message: _Message


class _Completion(msgspec.Struct):
    choices: list[_Choice]


class ChatClient:
    """Asks the server behind a service, through the API server.

    Args:
        user: who asks.
        namespace: namespace of the service.
        service: its name.
    """

    def __init__(self, user: Client, namespace: str, service: str) -> None:
        self._user = user
        self._namespace = namespace
        self._service = service

    async def models(self) -> list[str]:
        """Return the names of the served models, as soon as the service leads to a ready pod.

        Raises:
            ChatFailed: the answer is not a list of models.
        """
        while True:
            try:
                body = await self._send("GET", "/v1/models")
            except StatusError:
                await asyncio.sleep(_PAUSE)
            else:
                break
        if served := [each.id for each in _decoded(body, _Models).data]:
            return served
        raise ChatFailed("the model server serves no model")

    async def ask(self, model: str, question: str) -> str:
        """Return the answer of a model.

        Raises:
            ChatFailed: there is none.
            controller.kube.errors.KubeError: the server cannot be reached.
        """
        request = {"model": model, "messages": [{"role": "user", "content": question}]}
        body = await self._send("POST", "/v1/chat/completions", request)
        choices = _decoded(body, _Completion).choices
        if not choices:
            raise ChatFailed("the model server gave no answer")
        return choices[0].message.content

    async def _send(self, method: str, path: str, body: Any = None) -> bytes:
        answer = await self._user.proxy(
            SERVICES,
            self._namespace,
            f"{self._service}:{_PORT}",
            method,
            path,
            headers={"content-type": "application/json"},
            body=msgspec.json.encode(body) if body is not None else None,
        )
        if not answer.ok:
            raise ChatFailed(f"{path} was answered with {answer.status}: {answer.body[:200]!r}")
        return answer.body


def _decoded(body: bytes, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise ChatFailed(f"the model server answered {body[:200]!r}: {error}") from error


# The steps of the Workspace demo, from a manifest to an answer, and to nothing left.

NAMESPACE: Final = "default"
_QUESTION: Final = "What does a controller do while it waits?"
_STEP_SECONDS: Final = 40.0
_STOCK_OUT: Final = ("NodeClaimReady", "InsufficientCapacity")
_NO_PLUGIN: Final = ("NodesReady", "NodePluginsNotReady")


class WorkspaceSteps:
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
        """Yield informers that keep the view up to date."""
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
                await view.until(lambda v: _STOCK_OUT in v.reasons)
            async with self._step("another claim -> a node"):
                await view.until(lambda v: v.is_true("NodeClaimReady"))
        with self._waits.measure(
            "the GPU plugin of the node",
            "until 0.7 the worker looked for the plugin for up to 60 s; since then each Workspace "
            "comes back every 2 s",
        ):
            async with self._step("no GPU plugin -> GPUs"):
                await view.until(lambda v: _NO_PLUGIN in v.reasons)
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
            self._summary.model, self._summary.question = models[0], _QUESTION
            self._view.show(f"POST /v1/chat/completions: {_QUESTION}")
            self._summary.answer = await self._chat.ask(models[0], _QUESTION)
            self._view.show(f"answer: {self._summary.answer}")

    async def _delete(self) -> None:
        view = self._view
        async with self._step("deleted -> nothing left"):
            await self._user.delete(WORKSPACES, NAMESPACE, view.name)
            await view.until(lambda v: v.is_empty)

    async def _follow_log(self) -> None:
        """Show what the server prints."""
        pod = await self._user.get(PODS, NAMESPACE, f"{self._view.name}-0")
        async for line in follow_log(self._cluster.server, pod, self._view.name):
            self._view.show(f"| {line}")

    def _step(self, name: str) -> Step:
        return Step(name, _STEP_SECONDS, self._screen, self._summary.steps)
