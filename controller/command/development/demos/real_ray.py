"""Runs a demo whose pods are processes of this machine with real Ray."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controller.command.development.demos.process_demo import demo_with_processes
from controller.command.development.images import images_for

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
    environments = await images_for(machine.images, ray=True)
    return await demo_with_processes(play, summary, environments, machine.isolation)
