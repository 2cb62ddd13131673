"""The arguments of `manta plan`."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from controller.command.cli.arguments import (
    add_batch_scheduler,
    add_feature_gates,
    add_kubeconfig,
    add_mtls_issuer,
    add_output,
    feature_gates,
    kind_settings,
    manifest,
)

if TYPE_CHECKING:
    import argparse

    from controller.command.cli.arguments import Commands


def add(commands: Commands) -> None:
    """Add `manta plan`."""
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
    add_feature_gates(plan)
    add_batch_scheduler(plan)
    add_mtls_issuer(plan)
    add_output(plan, "text", "json")
    plan.set_defaults(start=_start)


def _start(options: argparse.Namespace) -> int:
    from controller.command.planning import PlanRequest, plan  # noqa: PLC0415

    gates = feature_gates(options)
    for name, reason in gates.without_effect().items():
        sys.stderr.write(f"manta: feature gate {name} has no effect: {reason}\n")
    request = PlanRequest(
        options.file,
        namespace=options.namespace,
        offline=options.offline,
        settings=kind_settings(options),
        kubeconfig=options.kubeconfig,
        context=options.context,
    )
    return asyncio.run(plan(request, options.output, forbidden=options.forbid))
