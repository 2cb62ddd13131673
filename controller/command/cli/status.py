"""The arguments of `manta status`, `manta why`, `manta diagnose` and `manta debug`."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path
from typing import Final

from controller.command.cli.arguments import (
    Commands,
    add_kubeconfig,
    add_namespaces,
    add_object,
    add_output,
    given,
    port,
)

_STATUS: Final = """\
Examples:

  manta status                      all clusters, jobs and services of the namespace
  manta status rayjobs -A           all jobs of all namespaces
  manta status rayservice/example   one, with its clusters, pods and last events
  manta status rayjob/example -w    until the job is deleted or you press ^C

Nothing is changed and no operator is asked: the cause is the one that the operator has stored in
the condition Ready. With KubeRay's operator, which stores none, it is found from the pods.

Needs the rights to list rayclusters, rayjobs, rayservices, pods and events.events.k8s.io, of a
workspace workspaces, inferencesets, nodeclaims, statefulsets and jobs, and for -w to watch them.
What may not be read is named, and the rest is shown.

Exit status: 0 shown (with -w: the object is gone), 1 a right is missing, the object does not exist
or the API server does not answer, 2 unusable input, 130 interrupted.
"""


_WHY: Final = """\
Examples:

  manta why pod/example-head-x7k2p      a pod, even one that is gone
  manta why raycluster/train-b8x2c      a cluster of a job: which attempt made or deleted it

What tells so are events about the object and those of its owner that name it; managedFields, the
last writer of each field; conditions; and what a RayJob has recorded of its attempts. The API
server keeps events for an hour by default, and nothing of a deleted object but its events: what is
not known is said, with the place where it may be found.

Needs the rights to get the object and its owners, and to list events.events.k8s.io.

Exit status: 0 explained, 1 nothing is known of the object, a right is missing or the API server
does not answer, 2 unusable input, 130 interrupted.
"""


def add(commands: Commands) -> None:
    """Add `manta status`, `manta why`, `manta diagnose` and `manta debug`."""
    _add_status(commands)
    _add_why(commands)
    _add_diagnose(commands)
    _add_debug(commands)


def _add_why(commands: Commands) -> None:
    why = commands.add_parser(
        "why",
        help="tell which decision made, changed or deleted a pod, a cluster or a job",
        description="Tell when an object was made, changed and deleted, by which program and why, "
        "and from what\nthat is known.",
        epilog=_WHY,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    why.add_argument(
        "target",
        nargs="+",
        metavar="KIND/NAME",
        help="pod, raycluster, rayjob, rayservice, raycronjob, rayclusterfleet, workspace, "
        "inferenceset, nodeclaim, statefulset, job or service, and its name",
    )
    add_object(why)
    why.set_defaults(start=_start_why)


def _start_why(options: argparse.Namespace) -> int:
    from controller.command.connection import run_connected  # noqa: PLC0415
    from controller.command.status.why import WhyOptions, explain  # noqa: PLC0415

    return run_connected("why", WhyOptions(**given(options)), explain, sys.stdout)


def _add_status(commands: Commands) -> None:
    status = commands.add_parser(
        "status",
        help="show clusters, jobs, services and models: state, first cause, CPUs and GPUs",
        description="Show the objects of Ray, Workspaces and InferenceSets in a table, or one of "
        "them as a tree: its clusters,\ngroups, nodes and pods, each with its state and the first "
        "cause why it is not ready, and the last events.",
        epilog=_STATUS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    status.add_argument(
        "target",
        nargs="*",
        metavar="KIND/NAME",
        help="raycluster, rayjob, rayservice, raycronjob, rayclusterfleet, workspace or "
        "inferenceset, and its name; a kind alone for all of it",
    )
    add_namespaces(status)
    status.add_argument(
        "-w", "--watch", action="store_true", help="show every change, until interrupted"
    )
    add_kubeconfig(status)
    add_output(
        status, "text", "json", text="json prints one document; with -w one line for each change"
    )
    status.set_defaults(start=_start_status)


def _start_status(options: argparse.Namespace) -> int:
    from controller.command.connection import run_connected  # noqa: PLC0415
    from controller.command.process import wall  # noqa: PLC0415
    from controller.command.status.run import StatusOptions, print_status  # noqa: PLC0415

    for name in ("informers", "controller"):  # what is wrong stands in the output
        logging.getLogger(name).setLevel(logging.CRITICAL)
    asked = StatusOptions(**given(options))
    return run_connected("status", asked, print_status, sys.stdout, wall)


_DIAGNOSE: Final = """\
Examples:

  manta diagnose                           all of the context's namespace
  manta diagnose rayjob/train -n team-a    one job, its clusters, pods and events
  manta diagnose -A -f report.tar.gz

Inside are, as text: the objects of Ray with their pods, services, jobs and events; Deployment,
configuration, log and metrics of the operator; the definitions without their schemas; versions.
The debug page is inside if it can be reached on this machine (kubectl port-forward POD 6060; see
`manta debug --help`). Logs of Ray's pods are not inside. What could not be had is listed at the end
and in missing.txt.

Not inside are Secrets, the last applied manifest, and values that look like passwords, tokens or
keys, in environment variables, options, addresses and texts: they become <redacted>. A program
cannot recognise every secret: look through the archive before you send it.

Needs the rights to list what is collected, and for metrics `get` on pods/proxy; nothing in the
cluster is changed.

Exit status: 0 written, 1 the object does not exist or the API server does not answer, 2 unusable
input, 130 interrupted.
"""


def _add_diagnose(commands: Commands) -> None:
    diagnose = commands.add_parser(
        "diagnose",
        help="collect what a bug report needs, without secrets",
        description="Collect objects, events, logs, metrics and versions in one archive, without "
        "secrets.",
        epilog=_DIAGNOSE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    diagnose.add_argument(
        "target",
        nargs="*",
        metavar="KIND/NAME",
        help="raycluster, rayjob, rayservice, raycronjob or rayclusterfleet, and its name; without "
        "it all of them",
    )
    add_namespaces(diagnose)
    diagnose.add_argument(
        "-f",
        "--file",
        type=Path,
        help="archive to write (default: manta-diagnose-TIME.tar.gz in this folder)",
    )
    diagnose.add_argument(
        "--port",
        type=port,
        default=DEFAULT_PORT,
        help=f"port of the debug page on this machine (default: {DEFAULT_PORT})",
    )
    add_kubeconfig(diagnose)
    diagnose.set_defaults(start=_start_diagnose)


def _start_diagnose(options: argparse.Namespace) -> int:
    from controller.command.connection import run_connected  # noqa: PLC0415
    from controller.command.diagnose import DiagnoseOptions, diagnose  # noqa: PLC0415
    from controller.command.process import wall  # noqa: PLC0415

    return run_connected("diagnose", DiagnoseOptions(**given(options)), diagnose, wall)


DEFAULT_PORT = 6060

_DEBUG: Final = """\
The operator serves the page only if it was started with --debug-port, or installed with the chart's
value debugPort, and only to its own machine or pod. From elsewhere:

  kubectl -n NAMESPACE port-forward deploy/manta-manta-operator 6060
  manta debug

or, with the program in the image:

  kubectl -n NAMESPACE exec deploy/manta-manta-operator -- manta debug

Each replica has a page of its own, which says whether it leads. `manta debug -o json` prints the
page as it is served, for jq; docs/operations.md explains each field.

Signals change the level of the log: SIGUSR1 makes it more verbose, SIGUSR2 less.

Exit status: 0 printed, 1 nothing answers, 2 unusable input.
"""


def _add_debug(commands: Commands) -> None:
    debug = commands.add_parser(
        "debug",
        help="show what a running operator is doing",
        description="Show what a running operator is doing. Trouble comes first: objects in "
        "back-off and why, watches\nthat do not run, dashboards that do not answer. Then queues, "
        "own writes that its caches do not\nshow yet, watches and dashboards.",
        epilog=_DEBUG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    debug.add_argument(
        "--port",
        type=port,
        default=DEFAULT_PORT,
        help=f"port of the page on this machine (default: {DEFAULT_PORT})",
    )
    debug.add_argument(
        "--tasks", action="store_true", help="show the tasks of asyncio too, with their places"
    )
    add_output(debug, "text", "json", text="json is the page as it is served (default: text)")
    debug.set_defaults(start=_start_debug)


def _start_debug(options: argparse.Namespace) -> int:
    from controller.command.debug import debug  # noqa: PLC0415  only what it needs

    return debug(options.port, options.output, tasks=options.tasks)
