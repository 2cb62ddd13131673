"""Runs a demo whose pods are processes of this machine with real Ray."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Protocol

from controller.command.development.demos.steps import StepFailed
from controller.command.development.images import images_for
from controller.command.development.process_node import process_node
from controller.command.development.view import screen_for
from controller.kube.errors import KubeError
from controller.runtime.logs import configure_logging

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from controller.command.development.process_node import ProcessNode
    from controller.command.development.view import Screen
    from controller.devcluster.processes.isolation.selection import IsolationOption


class DemoSummary(Protocol):
    """The results of a demo.

    Attributes:
        left_behind: what is left on this machine.
        failed: why the demo failed, empty if it did not.
    """

    left_behind: list[str]
    failed: str

    @property
    def worked(self) -> bool:
        """True if the demo succeeded."""
        ...

    def text(self) -> str:
        """The summary as plain lines."""
        ...


async def demo_with_real_ray(
    play: Callable[[ProcessNode, Screen], Awaitable[None]],
    summary: DemoSummary,
    images: Sequence[str],
    isolation: IsolationOption,
) -> int:
    """Play a demo and print its summary; returns the exit status.

    Args:
        play: the demo; it fills in the summary.
        summary: its results; what is left behind, and why it failed, are filled in here.
        images: `NAME=PATH`, environments that stand for images; one with Ray is made unless there
            is one.
        isolation: how pods are kept apart.

    Raises:
        ConfigurationError: Ray cannot be installed; the message names a remedy.
    """
    configure_logging(level="error", format="console")
    environments = await images_for(images, ray=True)
    async with process_node(environments, isolation) as node:
        loop = asyncio.get_running_loop()
        start = loop.time()
        screen = screen_for(lambda: loop.time() - start)
        try:
            await play(node, screen)
        except* (StepFailed, KubeError) as errors:
            summary.failed = "; ".join(map(str, errors.exceptions))
        finally:
            screen.close()
    summary.left_behind = node.left_behind()
    sys.stdout.write(f"\n{summary.text()}\n")
    return 0 if summary.worked else 1
