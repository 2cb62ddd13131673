"""The arguments of `manta take-over` and `manta hand-back`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from controller.command.cli.arguments import add_kubeconfig, add_output

if TYPE_CHECKING:
    import argparse

    from controller.command.cli.arguments import Commands
    from controller.command.operator_deployments import ChangeOptions


def add(commands: Commands) -> None:
    """Add `manta take-over` and `manta hand-back`."""
    _add_take_over(commands)
    _add_hand_back(commands)


def _add_take_over(commands: Commands) -> None:
    command = commands.add_parser(
        "take-over",
        help="start Manta in the place of KubeRay's operator",
        description="Hand all RayClusters, RayJobs, RayServices and RayCronJobs from KubeRay's "
        "operator to Manta without touching a pod. Nothing is changed if a pod would have to go or "
        "if the image does not start. If a step fails after KubeRay's operator was stopped, or you "
        "press ^C, it is started again.",
        epilog="Exit status: 0 Manta is in charge, 1 KubeRay stays in charge, 2 unusable input, "
        "3 a pod would have to go, 130 interrupted. Needs helm, unless --no-install is given.",
    )
    command.add_argument(
        "--image",
        default="",
        metavar="REPOSITORY:TAG",
        help="Manta's image, which the cluster can pull; it runs once before KubeRay is stopped",
    )
    command.add_argument(
        "--image-pull-secret",
        action="append",
        default=[],
        metavar="NAME",
        dest="pull_secrets",
        help="Secret in that namespace for pulling the image; may be repeated",
    )
    command.add_argument(
        "--chart",
        type=Path,
        dest="chart_path",
        metavar="FOLDER",
        help="Manta's chart (default: that of the checkout)",
    )
    command.add_argument(
        "--no-install",
        action="store_false",
        dest="chart",
        help="only stop KubeRay's operator; you start Manta yourself",
    )
    _add_operators(command)
    command.set_defaults(start=_take_over)


def _add_hand_back(commands: Commands) -> None:
    command = commands.add_parser(
        "hand-back",
        help="start KubeRay's operator in the place of Manta",
        description="Stop Manta, start KubeRay's operator again with as many replicas as it had, "
        "and remove Manta's release once KubeRay runs. If KubeRay does not start, or you press ^C, "
        "Manta is started again.",
        epilog="Exit status: 0 KubeRay is in charge, 1 it is not (Manta is started again, unless "
        "--no-uninstall is given), 2 unusable input, "
        "130 interrupted. Needs helm, unless --no-uninstall is given.",
    )
    command.add_argument(
        "--no-uninstall",
        action="store_false",
        dest="chart",
        help="uninstall nothing: Manta was not installed from the chart, and you have stopped it; "
        "waits until KubeRay runs",
    )
    _add_operators(command)
    command.set_defaults(start=_hand_back, image="", pull_secrets=[], chart_path=None)


def _add_operators(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "-n",
        "--namespace",
        default="default",
        help="namespace of both operators (default: default)",
    )
    command.add_argument(
        "--deployment",
        default="kuberay-operator",
        help="Deployment of KubeRay's operator (default: kuberay-operator)",
    )
    command.add_argument(
        "--timeout",
        type=float,
        default=120.0,
        metavar="SECONDS",
        help="longest time for a step (default: 120)",
    )
    add_kubeconfig(command)
    add_output(
        command, "text", "json", text="json prints a summary, and the steps on standard error"
    )


def _take_over(options: argparse.Namespace) -> int:
    from controller.command.process import interruptible  # noqa: PLC0415
    from controller.command.takeover import take_over  # noqa: PLC0415

    return asyncio.run(interruptible(take_over(_change_options(options))))


def _hand_back(options: argparse.Namespace) -> int:
    from controller.command.process import interruptible  # noqa: PLC0415
    from controller.command.takeover import hand_back  # noqa: PLC0415

    return asyncio.run(interruptible(hand_back(_change_options(options))))


def _change_options(options: argparse.Namespace) -> ChangeOptions:
    from controller.command.operator_deployments import ChangeOptions  # noqa: PLC0415

    return ChangeOptions(
        options.namespace,
        options.deployment,
        chart=options.chart,
        image=options.image,
        pull_secrets=tuple(options.pull_secrets),
        chart_path=options.chart_path,
        timeout=options.timeout,
        kubeconfig=options.kubeconfig,
        context=options.context,
        output=options.output,
    )
