"""The steps of a demo: announced, limited in time, and timed."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, cast

from controller.command.development.view import ObjectHandler
from controller.kube.objects import KubeObject
from controller.kube.source import ResourceSource
from controller.kube.transport import Request
from informers import Codec, SharedInformer

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine

    from controller.command.development.view import Screen
    from controller.kube.client import Client
    from controller.kube.objects import Pod
    from controller.kube.resources import Resource
    from controller.kube.transport import Transport


@dataclass(slots=True)
class Steps:
    """Completed steps and their seconds; the last one may have failed."""

    done: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])

    def lines(self) -> list[str]:
        """Return the lines of the summary."""
        return [f"{name:<28}{seconds:6.2f} s" for name, seconds in self.done]


class Step:
    """Announces a step, limits its time, and records how long it took.

    Args:
        name: for people.
        limit: seconds after which it has failed.
        screen: where it is announced.
        steps: where it is noted.
    """

    def __init__(self, name: str, limit: float, screen: Screen, steps: Steps) -> None:
        self._name = name
        self._screen = screen
        self._steps = steps
        self._seconds = limit
        self._limit = asyncio.timeout(limit)
        self._began = 0.0

    async def __aenter__(self) -> None:
        """Begin.

        Raises, at the end:
            StepFailed: it took too long.
        """
        self._screen.headline(self._name)
        self._began = asyncio.get_running_loop().time()
        self._steps.done.append((self._name, 0.0))
        await self._limit.__aenter__()

    async def __aexit__(self, *exc: object) -> None:
        """Record how long it took."""
        seconds = asyncio.get_running_loop().time() - self._began
        self._steps.done[-1] = (self._name, seconds)
        try:
            await self._limit.__aexit__(*exc)  # type: ignore[arg-type]
        except TimeoutError as error:
            raise StepFailed(f"not reached within {self._seconds:.0f} s: {self._name}") from error


class StepFailed(Exception):  # noqa: N818  named for what happened
    """A step did not reach its goal."""


def failure_text(error: Exception) -> str:
    """Return the reasons why a demo failed, without the groups that its tasks put around them."""
    if not isinstance(error, ExceptionGroup):
        return str(error)
    group = cast("ExceptionGroup[Exception]", error)
    return "; ".join(map(failure_text, group.exceptions))


# The summary of a demo whose pods are processes of this machine.


@dataclass(slots=True, kw_only=True)
class DemoSummary:
    """The results of a demo.

    Attributes:
        steps: its steps, and how long they took.
        wrong: sentences about what was observed and must not be.
        left_behind: what is left on this machine.
        failed: why the demo failed, empty if it did not.
    """

    steps: Steps = field(default_factory=Steps)
    wrong: list[str] = field(default_factory=list[str])
    left_behind: list[str] = field(default_factory=list[str])
    failed: str = ""

    @property
    def worked(self) -> bool:
        """True if the demo succeeded."""
        return not (self.failed or self.wrong or self.left_behind)

    def text(self) -> str:
        """Return the summary as plain lines."""
        return "\n".join([*self.steps.lines(), *self.verdict()])

    def verdict(self) -> list[str]:
        """Return the last lines: what is left, and whether the demo succeeded."""
        left = f"left on this machine: {', '.join(self.left_behind) or 'nothing'}"
        problems = [*self.wrong, *([self.failed] if self.failed else [])]
        return [left, *([f"FAILED: {problem}" for problem in problems] or ["everything worked"])]


# Tasks that run besides the steps of a demo.


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


# Informers that keep the view of a demo up to date.

T = TypeVar("T", bound=KubeObject)


def informer_for(
    user: Client,
    resource: Resource[T],
    *saw: Callable[[str, T | None], None],
    namespace: str = "default",
) -> SharedInformer[Any]:
    """Return an informer that calls each of `saw` with the key and state of a changed object."""
    informer = SharedInformer(
        f"demo-{resource.plural}",
        ResourceSource(user, resource, namespace),
        Codec(resource.view),
        clock=asyncio.get_running_loop(),
        rng=random.Random(),
    )
    for one in saw:
        informer.add_handler(ObjectHandler(one))
    return informer


# The log of a container while it is written.


async def follow_log(server: Transport, pod: Pod, container: str) -> AsyncGenerator[str, None]:
    """Return the lines of a container's log, until it ends; none if the pod is gone."""
    path = f"/api/v1/namespaces/{pod.metadata.namespace}/pods/{pod.metadata.name}/log"
    query = {"container": container, "follow": "true"}
    status, _, chunks = await server.request(Request("GET", path, query))
    rest = b""
    async for chunk in chunks:
        if status == 200:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                yield line.decode(errors="replace")
