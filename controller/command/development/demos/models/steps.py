"""The steps of the Workspace demo, from a manifest to an answer, and to nothing left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controller.command.development.demos.background import background
from controller.command.development.demos.informers import informer_for
from controller.command.development.demos.models.chat import ChatClient
from controller.command.development.demos.pod_log import follow_log
from controller.command.development.demos.steps import Step
from controller.command.development.view import WorkspaceView
from controller.kaito.api.karpenter import NODE_CLAIMS, NODES
from controller.kaito.api.workspace import WORKSPACES
from controller.kube.resources import PODS, STATEFUL_SETS

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator

    from controller.command.development.demos.models.summary import WorkspaceDemoSummary
    from controller.command.development.demos.models.waits import Waits
    from controller.command.development.embedded_cluster import EmbeddedCluster
    from controller.command.development.view import Screen
    from informers import SharedInformer

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
