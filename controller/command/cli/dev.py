"""The arguments of `manta dev`."""

from __future__ import annotations

import argparse
import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING

from controller.command.cli.arguments import add_log_level, add_machine
from controller.command.cli.development import FULL_PACKAGE, require_development
from controller.kube.errors import ConfigurationError

if TYPE_CHECKING:
    from controller.command.cli.arguments import Commands


def add(commands: Commands) -> None:
    """Add `manta dev`."""
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
        "--no-operator", action="store_true", help="run the cluster without the operator"
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
    dev.set_defaults(start=_start)


def _start(options: argparse.Namespace) -> int:
    require_development("dev")
    from controller.command.development.dev import DevOptions, dev  # noqa: PLC0415
    from controller.command.development.node_shapes import node_shapes  # noqa: PLC0415

    processes = options.ray or bool(options.images)
    if options.nodes and processes:
        raise ConfigurationError(
            "--nodes: with --ray or --image the node is this machine; leave one of them out"
        )
    chosen = DevOptions(
        name=options.name,
        port=options.port,
        page_port=options.page_port,
        kubeconfig=options.kubeconfig,
        crds=options.crds,
        operator=not options.no_operator,
        log_level=options.log_level,
        ray=options.ray,
        images=tuple(options.images),
        isolation=options.isolation,
        workspaces=options.workspaces,
        log=options.log,
        nodes=() if processes else node_shapes(options.nodes),
    )
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
