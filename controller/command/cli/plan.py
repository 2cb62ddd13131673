"""The arguments of `manta plan`, `manta rollout`, `manta take-over` and `manta hand-back`."""

from __future__ import annotations

import argparse
import asyncio
import sys
from functools import partial
from pathlib import Path
from typing import Final, Literal

from controller.command.cli.arguments import (
    Commands,
    add_kind_settings,
    add_kubeconfig,
    add_object,
    add_output,
    feature_gates,
    given,
    kind_settings,
    manifest,
)

_EXIT: Final = "Exit status: 0 done, 1 not done, 2 unusable input, 130 interrupted."


def add(commands: Commands) -> None:
    """Add `manta plan` and `manta rollout`."""
    _add_plan(commands)
    _add_rollout(commands)


def _add_plan(commands: Commands) -> None:
    plan = commands.add_parser(
        "plan",
        help="show what applying a manifest would do",
        description="Show what would be created, changed, replaced and deleted if a manifest were "
        "applied, or what the operator would do with the existing objects; its own planner "
        "decides. Nothing is written: the API server gets only dry runs, of the manifest and of "
        "every object that the operator would write, and its refusals are shown. For a "
        "RayService the plan shows the order in which clusters are created and deleted, and the "
        "most pods, CPUs and GPUs that they request on the way; for a RayCluster under "
        "RollingUpdate, the steps in which pods are replaced, and how long new pods must be "
        "ready.",
        epilog="Exit status: 0 planned, 1 an object would be refused, 2 unusable input or no "
        "answer from the cluster, 3 something forbidden would happen.",
    )
    what = plan.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "-f",
        "--file",
        type=manifest,
        help="manifest, a folder of manifests, or - for standard input",
    )
    what.add_argument("--all", action="store_true", help="plan for all existing objects")
    plan.add_argument(
        "-n",
        "--namespace",
        default="",
        help="namespace of manifests that name none (default: default); with --all, the only "
        "namespace to plan for (default: all)",
    )
    plan.add_argument(
        "--forbid",
        action="append",
        choices=["create", "change", "replace", "delete"],
        default=[],
        help="fail if this would happen to an object, except by an upgrade that is in progress; "
        "may be repeated",
    )
    plan.add_argument(
        "--offline", action="store_true", help="plan for an empty cluster, without asking one"
    )
    add_kubeconfig(plan)
    add_kind_settings(plan)
    add_output(plan, "text", "json")
    plan.set_defaults(start=_plan)


def _plan(options: argparse.Namespace) -> int:
    from controller.command.planning import PlanRequest, plan  # noqa: PLC0415

    gates = feature_gates(options)
    for name, reason in gates.without_effect().items():
        sys.stderr.write(f"manta: feature gate {name} has no effect: {reason}\n")
    request = PlanRequest(
        kind_settings(options),
        options.file,
        options.offline,
        options.forbid,
        namespace=options.namespace,
        output=options.output,
        kubeconfig=options.kubeconfig,
        context=options.context,
    )
    return asyncio.run(plan(request))


def _add_rollout(commands: Commands) -> None:
    rollout = commands.add_parser(
        "rollout",
        help="watch, pause, resume and undo the rolling update of a RayCluster or a fleet",
        description="Do for RayClusters what `kubectl rollout` does for Deployments. A RayCluster "
        "has rolling updates if its spec.upgradeStrategy.type is RollingUpdate: an edit of its pod "
        "templates then replaces its pods a few at a time. `manta plan` shows the steps "
        "beforehand. A RayClusterFleet replaces whole copies; its updates can be watched, paused "
        "and resumed, but it keeps no history.",
        epilog="Examples: manta rollout status raycluster/example; manta rollout undo "
        "raycluster/example --to-revision 3.",
    )
    actions = rollout.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_status(actions)
    _add(
        actions,
        "pause",
        "pause a rolling update",
        "Finish replacing the pods that are being drained, and replace no others until the rolling "
        "update is resumed. Edits made meanwhile wait too.",
    )
    _add(actions, "resume", "continue a paused rolling update", "Continue where it was paused.")
    undo = _add(
        actions,
        "undo",
        "restore earlier pod templates",
        "Write the pod templates, ray start parameters, resources, labels and rayVersion of an "
        "earlier revision back into the specification; the pods follow as after any edit. Numbers "
        "of replicas and all other fields stay as they are. Groups that were added or removed "
        "since are named and left alone. A tool that applies manifests, such as Argo CD, would "
        "overwrite this: undo the edit there too.",
    )
    undo.add_argument(
        "--to-revision",
        type=_number,
        default=0,
        metavar="N",
        dest="revision",
        help="revision to restore (default: the one before the present one)",
    )
    undo.add_argument(
        "--dry-run", action="store_true", help="print what would change, and change nothing"
    )
    history = _add(
        actions,
        "history",
        "list the revisions that can be restored",
        "The operator keeps the last ten sets of pod templates as ControllerRevisions. "
        "CHANGE-CAUSE is the annotation kubernetes.io/change-cause that the RayCluster had.",
    )
    history.add_argument(
        "--revision",
        type=_number,
        default=0,
        metavar="N",
        help="print the pod templates of this revision (default: list all)",
    )


def _add_status(actions: Commands) -> None:
    status = _add(
        actions,
        "status",
        "follow a rolling update until it is complete",
        "Print the progress whenever it changes, until all pods have been replaced and are ready, "
        "or the update cannot continue: it has made no progress for progressDeadlineSeconds, the "
        "versions of Ray do not fit together, or the head cannot be replaced.",
        epilog="Exit status: 0 complete (with --watch=false: not failed), 1 failed, timed out or "
        "not found, 2 unusable input, 130 interrupted.",
    )
    status.add_argument(
        "-w",
        "--watch",
        "--watch=true",
        action="store_true",
        default=True,
        help="wait for the end (default)",
    )
    status.add_argument(
        "--watch=false",
        dest="watch",
        action="store_false",
        help="print the present progress and exit",
    )
    status.add_argument(
        "--timeout",
        type=_duration,
        default=0.0,
        metavar="DURATION",
        help="longest time to wait, such as 90s or 10m (default: for ever)",
    )


def _add(
    actions: Commands, name: str, summary: str, description: str, *, epilog: str = _EXIT
) -> argparse.ArgumentParser:
    action = actions.add_parser(name, help=summary, description=description, epilog=epilog)
    action.add_argument(
        "target",
        nargs="+",
        metavar="TYPE/NAME",
        help="raycluster/NAME or rayclusterfleet/NAME; a space may replace the slash",
    )
    add_object(action)
    action.set_defaults(start=_rollout, action=name)
    return action


def _rollout(options: argparse.Namespace) -> int:
    from controller.command.connection import run_connected  # noqa: PLC0415
    from controller.command.rollout import RolloutOptions, rollout  # noqa: PLC0415

    return run_connected("rollout", RolloutOptions(**given(options)), rollout, sys.stdout)


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not the number of a revision")
    return int(text)


def _duration(text: str) -> float:
    from controller.apimachinery.schedule import InvalidDuration, read_duration  # noqa: PLC0415

    try:
        seconds = float(read_duration(text))
    except InvalidDuration as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if seconds < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is negative")
    return seconds


def add_operators(commands: Commands) -> None:
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
    _add_operator_options(command)
    command.set_defaults(start=partial(_change, "take-over"))


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
    _add_operator_options(command)
    command.set_defaults(start=partial(_change, "hand-back"))


def _add_operator_options(command: argparse.ArgumentParser) -> None:
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


def _change(command: Literal["take-over", "hand-back"], options: argparse.Namespace) -> int:
    from controller.command.operator_deployments import ChangeOptions  # noqa: PLC0415
    from controller.command.process import interruptible  # noqa: PLC0415
    from controller.command.takeover import change_operators  # noqa: PLC0415

    return asyncio.run(interruptible(change_operators(command, ChangeOptions(**given(options)))))
