"""Runs a demo whose pods are processes of this machine with real Ray."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from controller.command.development.demos.steps import StepFailed
from controller.command.development.images import images_for
from controller.command.development.process_node import process_node
from controller.command.development.view import screen_for
from controller.kube.errors import KubeError
from controller.runtime.logs import configure_logging

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from controller.command.development.demos.summary import DemoSummary
    from controller.command.development.process_node import ProcessNode
    from controller.command.development.view import Screen
    from controller.devcluster.processes.isolation.selection import IsolationOption


@dataclass(frozen=True, slots=True)
class MachineOptions:
    """The options of this machine, as the node of a demo.

    Attributes:
        images: `NAME=PATH`, environments that stand for images; one with Ray is made unless there
            is one.
        isolation: how pods are kept apart.
    """

    images: Sequence[str]
    isolation: IsolationOption


async def demo_with_real_ray(
    play: Callable[[ProcessNode, Screen], Awaitable[None]],
    summary: DemoSummary,
    machine: MachineOptions,
) -> int:
    """Play a demo and print its summary; returns the exit status.

    Args:
        play: the demo; it fills in the summary.
        summary: its results; what is left behind, and why it failed, are filled in here.
        machine: the options of this machine.

    Raises:
        ConfigurationError: Ray cannot be installed; the message names a remedy.
    """
    configure_logging(level="error", format="console")
    environments = await images_for(machine.images, ray=True)
    async with process_node(environments, machine.isolation) as node:
        loop = asyncio.get_running_loop()
        start = loop.time()
        screen = screen_for(lambda: loop.time() - start)
        try:
            screen.headline("starting an embedded Kubernetes API server whose pods are processes")
            for sentence in node.description:
                screen.change(sentence)
            await play(node, screen)
        except* (StepFailed, KubeError) as errors:
            summary.failed = "; ".join(map(str, errors.exceptions))
        finally:
            screen.close()
    summary.left_behind = node.left_behind()
    sys.stdout.write(f"\n{summary.text()}\n")
    return 0 if summary.worked else 1
