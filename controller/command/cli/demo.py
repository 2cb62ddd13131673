"""The arguments of `manta demo`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from controller.command.cli.arguments import add_machine
from controller.command.cli.development import FULL_PACKAGE, require_development
from controller.kube.errors import ConfigurationError

if TYPE_CHECKING:
    import argparse

    from controller.command.cli.arguments import Commands

EXAMPLES = {
    kind: Path(__file__).parents[3] / "examples" / f"{kind}.yaml"
    for kind in (
        "autoscaling",
        "raycluster",
        "rayjob",
        "rayservice",
        "rayservice-incremental",
        "rolling",
        "workspace",
    )
}


def add(commands: Commands) -> None:
    """Add `manta demo`."""
    demo = commands.add_parser(
        "demo",
        help="watch a cluster become ready, grow, shrink and be deleted, a job run, an upgrade, or "
        "a model get its GPU node",
        description="Embedded cluster, operator and an example in one process. The exit status "
        "says whether everything worked. " + FULL_PACKAGE,
    )
    demo.add_argument(
        "--kind",
        choices=sorted(EXAMPLES),
        default="raycluster",
        help="a RayCluster with simulated pods (default), a Workspace whose node is simulated and "
        "whose model server is a stand-in, or with real Ray a RayJob, a RayService that is "
        "upgraded, or a RayCluster that scales itself or whose workers are replaced while a job "
        "runs on them; the environment of Ray (about 500 MB) is made once",
    )
    demo.add_argument(
        "--chart",
        type=Path,
        metavar="FILE",
        help="with rayservice-incremental: draw capacity, weight and requests over time (SVG)",
    )
    demo.add_argument("-f", "--file", type=Path, help="a manifest of that kind")
    add_machine(demo)
    demo.set_defaults(start=_start)


def _start(options: argparse.Namespace) -> int:
    require_development("demo")
    from controller.command.development.demos import (  # noqa: PLC0415
        MachineOptions,
        autoscaling_demo,
        cluster_demo,
        incremental_demo,
        job_demo,
        rolling_demo,
        service_demo,
        workspace_demo,
    )
    from controller.command.signals import interruptible  # noqa: PLC0415

    manifest = options.file or EXAMPLES[options.kind]
    machine = MachineOptions(options.images, options.isolation)
    with_processes = {
        "rayjob": job_demo,
        "autoscaling": autoscaling_demo,
        "rayservice": service_demo,
        "rolling": rolling_demo,
        "workspace": workspace_demo,
    }
    if options.kind == "rayservice-incremental":
        demo = incremental_demo(manifest, machine, options.chart)
    elif options.chart:
        raise ConfigurationError("--chart is for --kind rayservice-incremental")
    elif options.kind in with_processes:
        demo = with_processes[options.kind](manifest, machine)
    elif options.images or options.isolation != "auto":
        raise ConfigurationError(
            "--image and --isolation are for the kinds whose pods are processes"
        )
    else:
        demo = cluster_demo(manifest)
    return asyncio.run(interruptible(demo))
