"""Runs a demo: an embedded cluster, the operator, steps with a time limit, and a summary."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, cast

import msgspec
from prometheus_client import CollectorRegistry

from controller.apimachinery.custom_object import dig
from controller.command.development.embedded_cluster import EmbeddedCluster, embedded_cluster
from controller.command.development.process_node import ProcessNode, images_for, process_node
from controller.command.development.runs import DevContext
from controller.command.kinds import KindSettings
from controller.command.manifests import load
from controller.command.operator import operator_for
from controller.kube.client import Client
from controller.kube.errors import ConfigurationError, KubeError, NotFound
from controller.kube.http import ends_within
from controller.kube.objects import Pod
from controller.kube.resources import PODS, SERVICES, Resource
from controller.kube.transport import Request
from controller.ray.api import RAYCLUSTERS, custom_resource_definitions
from controller.ray.api.names import DASHBOARD_PORT
from controller.runtime.settings import Settings, configure_logging
from demos.view import (
    Screen,
    View,
    Words,
    cluster_words,
    pod_words,
    screen_for,
)
from devcluster.karpenter import ClaimFates
from devcluster.nodes import NodeSettings
from devcluster.processes.isolation import IsolationOption

Json = dict[str, Any]

NAMESPACE: Final = "default"
OPERATOR: Final = "manta-operator"


class StepFailed(Exception):  # noqa: N818  named for what happened
    """A step did not reach its goal."""


class Demo:
    """A demo of one object; each kind of demo is a subclass.

    Raises:
        ConfigurationError: the manifest holds something else; the message says what.

    Attributes:
        beside: resources of what else the manifest may hold.
        words: what is shown of each resource that is watched.
        pods: what runs as pods; `ray` are processes with real Ray.
        seconds: limit of each step: a small machine starts Ray slowly.
        claims: what becomes of NodeClaims; None for a cluster without a provisioner.
        registry: gets the metrics of the operator; None for a new one.
        apart: whether the operator is a process of its own, which can be killed.
        wrong: sentences about what was observed and must not be, and why the demo failed.
    """

    kind: ClassVar[Resource[Any]] = RAYCLUSTERS
    beside: ClassVar[Sequence[Resource[Any]]] = ()
    words: ClassVar[dict[Resource[Any], Words]] = {RAYCLUSTERS: cluster_words, PODS: pod_words}
    pods: ClassVar[Literal["simulated", "processes", "ray"]] = "ray"
    seconds: ClassVar[float] = 900.0
    nodes: ClassVar[NodeSettings] = NodeSettings()
    claims: ClaimFates | None = None
    registry: CollectorRegistry | None = None
    apart: ClassVar[bool] = False

    # Set by `run` before `play`.
    screen: Screen
    view: View
    node: ProcessNode
    cluster: EmbeddedCluster
    user: Client
    operator: OperatorProcess
    tasks: asyncio.TaskGroup

    def __init__(self, manifest: Path) -> None:
        self.resources = {each.kind: each for each in (self.kind, *self.beside)}
        self.documents = load(manifest)
        for each in self.documents:
            if each["kind"] not in self.resources:
                raise ConfigurationError(
                    f"{manifest} holds a {each['kind']}, and this demo takes "
                    f"{', '.join(f'{kind}s' for kind in self.resources)}; --kind chooses another"
                )
        found = [each for each in self.documents if each["kind"] == self.kind.kind]
        if len(found) != 1:
            raise ConfigurationError(
                f"{manifest} holds {len(found)} {self.kind.kind}s; it must hold one"
            )
        for each in self.documents:
            if not dig(each, "metadata", "name"):
                raise ConfigurationError(f"{manifest} holds a {each['kind']} without metadata.name")
        self.object: Json = found[0]
        self.others = [each for each in self.documents if each is not self.object]
        self.name = str(self.object["metadata"]["name"])
        self.steps: list[tuple[str, float]] = []
        self.wrong: list[str] = []

    async def play(self) -> None:
        """Run the steps.

        Raises:
            StepFailed: one did not reach its goal.
            KubeError: the API server refused something.
        """
        raise NotImplementedError

    def counts(self) -> Iterable[str]:
        """Return what was counted, for the summary."""
        return ()

    def definitions(self) -> list[Json]:
        """Return the CustomResourceDefinitions to install."""
        return custom_resource_definitions()

    def kind_settings(self) -> KindSettings | None:
        """Return the settings of the operator's kinds; None for the usual ones."""
        return None

    # What steps are made of.

    @asynccontextmanager
    async def step(self, name: str, seconds: float | None = None) -> AsyncGenerator[None]:
        """Announce a step, limit its time, and record how long it took.

        Raises:
            StepFailed: it took too long.
        """
        limit, clock = seconds or self.seconds, asyncio.get_running_loop().time
        self.screen.headline(name)
        began = clock()
        self.steps.append((name, 0.0))
        timeout = asyncio.timeout(limit)
        try:
            async with timeout:
                yield
        except TimeoutError as error:
            if not timeout.expired():
                raise
            raise StepFailed(f"not reached within {limit:.0f} s: {name}") from error
        finally:
            self.steps[-1] = (name, clock() - began)

    async def reach(
        self,
        name: str,
        goal: Callable[[], bool],
        action: Awaitable[Any] | None = None,
        *,
        seconds: float | None = None,
    ) -> None:
        """Do a step: something, until the view shows that the goal is reached."""
        async with self.step(name, seconds):
            if action is not None:
                await action
            await self.view.until(goal)

    async def create(self) -> None:
        """Create the object and what it needs; first start the operator, if it is apart."""
        if self.apart:
            self.screen.change(f"operator: process {await self.operator.start()}")
        for each in (*self.others, self.object):
            resource = self.resources[each["kind"]]
            await self.user.create(resource, NAMESPACE if resource.namespaced else "", each)

    async def set(self, path: str, value: Any) -> None:
        """Change a field of the object."""
        operation = {"op": "replace", "path": path, "value": value}
        await self.user.json_patch(self.kind, NAMESPACE, self.name, [operation])

    async def remove(self) -> None:
        """Delete the object, and wait until nothing of it is left."""
        with suppress(NotFound):  # its own deletion rules have removed it
            await self.user.delete(self.kind, NAMESPACE, self.name)
        await self.view.until(lambda: not any(self.view.objects.values()))

    async def ask(self, service: str, method: str, path: str, body: Any = None) -> Json:
        """Send a request to a service `name:port` through the API server; returns the answer.

        Raises:
            StepFailed: it is a refusal, or no JSON.
            KubeError: the service cannot be reached.
        """
        answer = await self.user.proxy(
            *(SERVICES, NAMESPACE, service, method, path),
            headers={"content-type": "application/json"},
            body=None if body is None else msgspec.json.encode(body),
            timeout=120.0,
        )
        with suppress(msgspec.DecodeError):
            if answer.ok:
                return msgspec.json.decode(answer.body, type=Json)
        said = answer.body[:200].decode(errors="replace")
        raise StepFailed(f"{path} was answered with {answer.status}: {said}")

    async def ask_head(self, method: str, path: str, body: Any = None) -> Json:
        """Send a request to Ray's dashboard of the RayCluster; see `ask`."""
        return await self.ask(f"{self.name}-head-svc:{DASHBOARD_PORT}", method, path, body)

    async def follow_log(self, pod: Pod, container: str) -> AsyncGenerator[str, None]:
        """Return the lines of a container's log, until it ends; none if the pod is gone."""
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod.metadata.name}/log"
        request = Request("GET", path, {"container": container, "follow": "true"})
        status, _, chunks = await self.cluster.server.request(request)
        rest = b""
        async for chunk in chunks:
            if status == 200:
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield line.decode(errors="replace")

    async def kill_operator(self) -> None:
        """Kill the operator, and start another one some seconds later."""
        self.screen.change(f"operator killed: exit status {await self.operator.kill()}")
        await asyncio.sleep(3.0)
        self.screen.change(f"operator: process {await self.operator.start()}")


async def run(demo: Demo, images: Sequence[str], isolation: IsolationOption) -> int:
    """Run a demo and print its summary; returns the exit status.

    Environments stand for images, `NAME=PATH`; one with Ray is made unless there is one.

    Raises:
        ConfigurationError: Ray cannot be installed, or the isolation is not possible; the message
            names a remedy.
    """
    known = None
    if demo.pods != "simulated":
        known = await images_for(images, ray=demo.pods == "ray")
    configure_logging(level="error", format="console")
    loop = asyncio.get_running_loop()
    start, node = loop.time(), None
    async with AsyncExitStack() as stack:
        if known is not None:
            node = await stack.enter_async_context(process_node(known, isolation))
            demo.node = node
        demo.screen = screen_for(lambda: loop.time() - start)
        demo.view = View(demo.screen, demo.words)
        demo.view.counts = demo.counts
        try:
            pods = "whose pods are processes" if node else "and a simulated node"
            demo.screen.headline(f"starting an embedded Kubernetes API server {pods}")
            for sentence in node.description if node else ():
                demo.screen.change(sentence)
            await _play(demo, node)
        except* (StepFailed, KubeError) as errors:
            demo.wrong.append(failure_text(errors))
        finally:
            demo.screen.close()
    left = node.left_behind() if node else []
    sys.stdout.write(f"\n{summary(demo, left if node else None)}\n")
    return 1 if demo.wrong or left else 0


def summary(demo: Demo, left_behind: Sequence[str] | None) -> str:
    """Return the steps, the counts, what is left on this machine, and whether all worked."""
    lines = [*(f"{name:<28} {seconds:5.2f} s" for name, seconds in demo.steps), *demo.counts()]
    if left_behind is not None:
        lines.append(f"left on this machine: {', '.join(left_behind) or 'nothing'}")
    return "\n".join(
        [*lines, *([f"FAILED: {each}" for each in demo.wrong] or ["everything worked"])]
    )


def failure_text(error: Exception) -> str:
    """Return the reasons why a demo failed, without the groups that its tasks put around them."""
    if not isinstance(error, ExceptionGroup):
        return str(error)
    group = cast("ExceptionGroup[Exception]", error)
    return "; ".join(map(failure_text, group.exceptions))


async def _play(demo: Demo, node: ProcessNode | None) -> None:
    """Start everything, run the steps, stop everything."""
    async with (
        embedded_cluster(
            port=0,
            crds=demo.definitions(),
            nodes=demo.nodes,
            process_node=node,
            claims=demo.claims,
        ) as cluster,
        asyncio.TaskGroup() as tasks,
    ):
        demo.cluster, demo.tasks = cluster, tasks
        demo.user = cluster.client("demo-user")
        updates = demo.view.updates(cluster.server)
        async with background(tasks, *updates), AsyncExitStack() as stack:
            if demo.apart:
                demo.operator = OperatorProcess(cluster, demo.node)
                await stack.enter_async_context(aclosing(demo.operator))
            else:
                await stack.enter_async_context(_operator(demo))
            await demo.play()


@asynccontextmanager
async def _operator(demo: Demo) -> AsyncGenerator[None]:
    """Run the operator in this process."""
    async with (
        operator_for(
            demo.cluster.credentials(),
            Settings(metrics_address="", health_address=""),
            user_agent=OPERATOR,
            kind_settings=demo.kind_settings(),
            registry=demo.registry,
        ) as operator,
        asyncio.TaskGroup() as tasks,
    ):
        stop = asyncio.Event()
        running = tasks.create_task(operator.run(stop))
        yield
        stop.set()
        await running


@asynccontextmanager
async def background(
    tasks: asyncio.TaskGroup, *coroutines: Coroutine[Any, Any, None]
) -> AsyncGenerator[None]:
    """Run the coroutines as tasks until the block ends."""
    running = [tasks.create_task(each) for each in coroutines]
    try:
        yield
    finally:
        for task in running:
            task.cancel()


_ARGUMENTS: Final = ("run", "--metrics-address=", "--health-address=", "--log-level=error")
_PATIENCE: Final = 30.0  # seconds for its end

# Ctrl-C is for the process that has started it.
start_process = partial(
    asyncio.create_subprocess_exec, stdin=asyncio.subprocess.DEVNULL, start_new_session=True
)


class OperatorProcess:
    """`manta run` against an embedded cluster. It ends with the cluster, whatever happens."""

    def __init__(self, cluster: EmbeddedCluster, node: ProcessNode) -> None:
        self._kubeconfig = node.folder / "operator.kubeconfig"
        self._environment = {**os.environ, **node.environment_of("operator")}
        context = DevContext("demo", node.folder / "operator.json")
        user = cluster.kubeconfig_user()
        context.add(self._kubeconfig, cluster=cluster.kubeconfig_cluster(), user=user)
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> int:
        """Start it; returns its process id."""
        command = (sys.executable, "-m", "controller", *_ARGUMENTS)
        self._process = await start_process(
            *command, f"--kubeconfig={self._kubeconfig}", env=self._environment
        )
        return self._process.pid

    async def kill(self) -> int:
        """Kill it with SIGKILL; returns its exit status, -9 if it had been running."""
        assert self._process is not None
        if self._process.returncode is None:
            self._process.kill()
        return await self._process.wait()

    async def aclose(self) -> None:
        """Ask it to end, and wait."""
        if self._process is None or self._process.returncode is not None:
            return
        self._process.terminate()
        if not await ends_within(_PATIENCE, self._process.wait()):
            await self.kill()
