"""The arguments of `manta dev` and `manta demo`, and what both of them need."""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import re
import sys
from pathlib import Path
from shutil import which
from typing import Final

from controller.command.cli.arguments import Commands, add_log_level, add_machine, given, manifest
from controller.command.cli.printed import example_files
from controller.kube.errors import ConfigurationError

FULL_PACKAGE: Final = (
    "Needs the full package (pip install in a checkout); the production image does not hold it."
)
_NEXT = {
    True: "`{} demo --kind rayjob`: a job with real Ray that fails, is retried and succeeds",
    False: "`{0} dev`, and in another terminal `{0} example rayjob | kubectl apply -f -`",
}
"""What to try after a demo that has worked; the first demo is that of a RayCluster."""
_KINDS: Final = "autoscaling raycluster rayjob rayservice rayservice-incremental rolling workspace"
_EXAMPLES: Final = {kind: kind for kind in _KINDS.split()} | {
    "drain": "rolling",
    "mtls": "raycluster-mtls",
}
"""The example that each kind of demo plays with."""


def add(commands: Commands) -> None:
    """Add `manta dev` and `manta demo`."""
    _add_dev(commands)
    _add_demo(commands)


def require_development(command: str) -> None:
    """Refuse a command that this installation does not hold.

    Raises:
        ConfigurationError: the embedded cluster was left out, as in the production image.
    """
    needed = ("controller.command.development", "devcluster", "demos")
    missing = [package for package in needed if not importlib.util.find_spec(package)]
    if missing:
        raise ConfigurationError(
            f"`manta {command}` needs the full package, and this installation leaves "
            f"{missing[0]} out, as the production image does. Install Manta from a checkout: "
            "pip install '.[cli]'"
        )


def _add_dev(commands: Commands) -> None:
    dev = commands.add_parser(
        "dev",
        help="run an embedded Kubernetes with the operator in it",
        description="Run an API server and a simulated node in this process, for kubectl and for "
        "trying manifests. The command adds a context to a kubeconfig, prints which, and removes "
        "it at the end. Nothing is stored. " + FULL_PACKAGE,
    )
    dev.add_argument(
        "--name",
        type=_run_name,
        help="name of this cluster, to run several at once; its context is manta-NAME (default: "
        "dev, or the first free one of dev-2, dev-3 and so on)",
    )
    dev.add_argument("--port", type=int, default=0, help="port on 127.0.0.1 (default: a free one)")
    dev.add_argument(
        "--page-port",
        type=int,
        default=0,
        help="port on 127.0.0.1 of a web page with what there is (default: a free one)",
    )
    dev.add_argument(
        "--kubeconfig",
        type=Path,
        help="kubeconfig to add the context to (default: one in ~/.cache/manta)",
    )
    dev.add_argument(
        "--no-operator",
        action="store_false",
        dest="operator",
        help="run the cluster without the operator",
    )
    dev.add_argument(
        "--crds", type=Path, help="file or folder of CRDs to install instead of Manta's own"
    )
    dev.add_argument(
        "--ray",
        action="store_true",
        help="run pods as processes with real Ray; its environment (about 500 MB) is created "
        "once, in ~/.cache/manta",
    )
    dev.add_argument(
        "--nodes",
        action="append",
        default=[],
        metavar="PRESET|FILE",
        help="simulated nodes, by default of all presets: cpu (three of 32 CPUs), spot, 8xH100, "
        "tpu-v6e-16; or a YAML list of name, count, cpu, memory, resources, labels, taints; may be "
        "repeated",
    )
    dev.add_argument(
        "--workspaces",
        action="store_true",
        help="serve Workspaces too; a simulated provisioner gives them nodes and GPUs",
    )
    dev.add_argument(
        "--log",
        action="store_true",
        help="show the log; without it a terminal shows clusters, jobs, services and the "
        "last events as they change, and the log goes to a file",
    )
    add_machine(dev)
    add_log_level(dev)
    dev.set_defaults(start=_dev)


def _dev(options: argparse.Namespace) -> int:
    require_development("dev")
    from controller.command.development.dev import DevOptions, dev  # noqa: PLC0415
    from controller.command.development.embedded_cluster import node_shapes  # noqa: PLC0415

    processes = options.ray or bool(options.images)
    if options.nodes and processes:
        raise ConfigurationError(
            "--nodes: with --ray or --image the node is this machine; leave one of them out"
        )
    options.nodes = () if processes else node_shapes(options.nodes)
    chosen = DevOptions(**given(options))
    if options.isolation != "auto" and not chosen.processes:
        raise ConfigurationError(
            f"--isolation {options.isolation}: pods are simulated; add --ray or --image NAME=PATH"
        )
    return asyncio.run(dev(chosen))


def _run_name(text: str) -> str:
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?", text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a name: use at most 40 lower-case letters, digits and dashes"
        )
    return text


def _add_demo(commands: Commands) -> None:
    demo = commands.add_parser(
        "demo",
        help="show a cluster, a job, an upgrade or a model from beginning to end",
        description="Run an embedded cluster, the operator and an example in one process. "
        + FULL_PACKAGE,
        epilog="Exit status: 0 everything worked, 1 something failed, 2 unusable input.",
    )
    demo.add_argument(
        "--kind",
        choices=sorted(_EXAMPLES),
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
    demo.set_defaults(start=_demo)


def _demo(options: argparse.Namespace) -> int:
    require_development("demo")
    import demos  # noqa: PLC0415
    from controller.command.process import interruptible  # noqa: PLC0415

    kind = demos.DEMOS[options.kind]
    path = options.file or example_files()[_EXAMPLES[options.kind]]
    if kind.pods == "simulated" and (options.images or options.isolation != "auto"):
        raise ConfigurationError(
            "--image and --isolation are for the kinds whose pods are processes"
        )
    if kind is demos.IncrementalDemo:
        demo = demos.IncrementalDemo(path, options.chart)
    elif options.chart:
        raise ConfigurationError("--chart is for --kind rayservice-incremental")
    else:
        demo = kind(path)
    status = asyncio.run(interruptible(demos.run(demo, options.images, options.isolation)))
    if status == 0:
        words = _NEXT[options.kind == "raycluster"].format(as_typed())
        sys.stdout.write(f"\nTry next: {words}\n")
    return status


def as_typed() -> str:
    """Return how the reader calls Manta: `make` calls it by its path, which may not be in PATH."""
    program = sys.argv[0]
    return program if Path(program).name == "manta" and which("manta") is None else "manta"
