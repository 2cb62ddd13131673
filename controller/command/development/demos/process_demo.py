"""Runs a demo whose pods are processes of this machine."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from controller.command.development.demos.steps import StepFailed, failure_text
from controller.command.development.process_node import process_node
from controller.command.development.view import screen_for
from controller.kube.errors import KubeError
from controller.runtime.logs import configure_logging

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from controller.command.development.demos.summary import DemoSummary
    from controller.command.development.process_node import ProcessNode
    from controller.command.development.view import Screen
    from controller.devcluster.processes.images import Images
    from controller.devcluster.processes.isolation.selection import IsolationOption


async def demo_with_processes(
    play: Callable[[ProcessNode, Screen], Awaitable[None]],
    summary: DemoSummary,
    images: Images,
    isolation: IsolationOption,
) -> int:
    """Play a demo and print its summary; returns the exit status.

    Args:
        play: the demo; it fills in the summary.
        summary: its results; what is left behind, and why it failed, are filled in here.
        images: the programs of the pods.
        isolation: how pods are kept apart.

    Raises:
        ConfigurationError: the isolation is not possible; the message names a remedy.
    """
    configure_logging(level="error", format="console")
    async with process_node(images, isolation) as node:
        loop = asyncio.get_running_loop()
        start = loop.time()
        screen = screen_for(lambda: loop.time() - start)
        try:
            screen.headline("starting an embedded Kubernetes API server whose pods are processes")
            for sentence in node.description:
                screen.change(sentence)
            await play(node, screen)
        except* (StepFailed, KubeError) as errors:
            summary.failed = failure_text(errors)
        finally:
            screen.close()
    summary.left_behind = node.left_behind()
    sys.stdout.write(f"\n{summary.text()}\n")
    return 0 if summary.worked else 1
