"""The arguments of `manta status` and `manta why`."""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING, Any, Final

from controller.command.cli.arguments import add_kubeconfig, add_namespaces, add_output

if TYPE_CHECKING:
    from controller.command.cli.arguments import Commands

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
    """Add `manta status` and `manta why`."""
    _add_status(commands)
    _add_why(commands)


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
    why.add_argument(
        "-n",
        "--namespace",
        default="",
        help="namespace of the object (default: that of the context)",
    )
    add_kubeconfig(why)
    add_output(why, "text", "json")
    why.set_defaults(start=_start_why)


def _start_why(options: argparse.Namespace) -> int:
    from controller.command.process import interruptible  # noqa: PLC0415
    from controller.command.status.why import WhyOptions, why  # noqa: PLC0415

    return asyncio.run(interruptible(why(WhyOptions(**_given(options)))))


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
    from controller.command.process import interruptible  # noqa: PLC0415
    from controller.command.status.run import StatusOptions, status  # noqa: PLC0415

    return asyncio.run(interruptible(status(StatusOptions(**_given(options)))))


def _given(options: argparse.Namespace) -> dict[str, Any]:
    return {name: value for name, value in vars(options).items() if name != "start"}
