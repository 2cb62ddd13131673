"""The arguments of `manta demo`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING

from controller.command.cli.arguments import add_machine, manifest
from controller.command.cli.development import FULL_PACKAGE, require_development
from controller.kube.errors import ConfigurationError

if TYPE_CHECKING:
    import argparse

    from controller.command.cli.arguments import Commands

_NEXT = {
    True: "`{} demo --kind rayjob`: a job with real Ray that fails, is retried and succeeds",
    False: "`{0} dev`, and in another terminal `{0} example rayjob | kubectl apply -f -`",
}
"""What to try after a demo that has worked; the first demo is that of a RayCluster."""

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
} | {
    "drain": Path(__file__).parents[3] / "examples" / "rolling.yaml",
    "mtls": Path(__file__).parents[3] / "examples" / "raycluster-mtls.yaml",
}


def add(commands: Commands) -> None:
    """Add `manta demo`."""
    demo = commands.add_parser(
        "demo",
        help="show a cluster, a job, an upgrade or a model from beginning to end",
        description="Run an embedded cluster, the operator and an example in one process. "
        + FULL_PACKAGE,
        epilog="Exit status: 0 everything worked, 1 something failed, 2 unusable input.",
    )
    demo.add_argument(
        "--kind",
        choices=sorted(EXAMPLES),
        default="raycluster",
        help="with simulated pods: raycluster (default), which becomes ready, grows, shrinks and "
        "is deleted. With a simulated GPU node and a stand-in for the model: workspace. With real "
        "Ray, whose environment (about 500 MB) is created once: rayjob, which is retried; "
        "rayservice and rayservice-incremental, which are upgraded under traffic; autoscaling, a "
        "RayCluster that scales itself; rolling, whose workers are replaced while a job runs; "
        "drain, whose nodes are emptied meanwhile; mtls, whose parts prove who they are",
    )
    demo.add_argument(
        "--chart",
        type=Path,
        metavar="FILE",
        help="with rayservice-incremental: write an SVG of capacity, weight and requests over time",
    )
    demo.add_argument(
        "-f", "--file", type=manifest, help="manifest to use instead of the example of that kind"
    )
    add_machine(demo)
    demo.set_defaults(start=_start)


def _start(options: argparse.Namespace) -> int:
    require_development("demo")
    from controller.command.development.demos import (  # noqa: PLC0415
        MachineOptions,
        autoscaling_demo,
        cluster_demo,
        drain_demo,
        incremental_demo,
        job_demo,
        mtls_demo,
        rolling_demo,
        service_demo,
        workspace_demo,
    )
    from controller.command.process import interruptible  # noqa: PLC0415

    manifest = options.file or EXAMPLES[options.kind]
    machine = MachineOptions(options.images, options.isolation)
    with_processes = {
        "rayjob": job_demo,
        "autoscaling": autoscaling_demo,
        "rayservice": service_demo,
        "rolling": rolling_demo,
        "drain": drain_demo,
        "mtls": mtls_demo,
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
    status = asyncio.run(interruptible(demo))
    if status == 0:
        words = _NEXT[options.kind == "raycluster"].format(as_typed())
        sys.stdout.write(f"\nTry next: {words}\n")
    return status


def as_typed() -> str:
    """Return how the reader calls Manta: `make` calls it by its path, which may not be in PATH."""
    program = sys.argv[0]
    return program if Path(program).name == "manta" and which("manta") is None else "manta"
