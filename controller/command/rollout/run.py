"""Runs one subcommand of `manta rollout`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import msgspec

import controller
from controller.command.connection import connected
from controller.command.remedies import with_remedy
from controller.command.rollout.errors import RolloutError
from controller.command.rollout.history import show_history
from controller.command.rollout.pausing import set_paused
from controller.command.rollout.report import Report
from controller.command.rollout.status import follow
from controller.command.rollout.undo import undo
from controller.command.rollout.workload import parse_workload
from controller.kube.errors import ConfigurationError, KubeError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TextIO

    from controller.kube.client import Client

USER_AGENT = f"manta-rollout/{controller.__version__}"

Action = Literal["status", "pause", "resume", "undo", "history"]


@dataclass(frozen=True, slots=True)
class RolloutOptions:
    """The arguments of one subcommand.

    Attributes:
        action: the subcommand.
        target: `raycluster/NAME`, or its two words.
        namespace: namespace of the object; empty for that of the kubeconfig's context.
        output: text for people or JSON for programs.
        watch: for `status`: whether to wait for the end.
        timeout: for `status`: seconds to wait, 0 for ever.
        revision: for `undo` and `history`: number, 0 for the previous one or for all.
        dry_run: for `undo`: whether only to print what would change.
        kubeconfig: see `manta run`.
        context: kubeconfig context, None for the current one.
    """

    action: Action
    target: Sequence[str]
    namespace: str = ""
    output: Literal["text", "json"] = "text"
    watch: bool = True
    timeout: float = 0.0
    revision: int = 0
    dry_run: bool = False
    kubeconfig: str | None = None
    context: str | None = None


async def rollout(options: RolloutOptions) -> int:
    """Run the subcommand; returns the exit status, 1 if it could not be done.

    Raises:
        ConfigurationError: no usable credentials, or the arguments name no object.
    """
    opened = connected(USER_AGENT, kubeconfig=options.kubeconfig, context=options.context)
    async with opened as (client, namespace):
        try:
            return await rollout_with(client, options, namespace, sys.stdout)
        except ConfigurationError:
            raise
        except (RolloutError, KubeError) as error:
            text = with_remedy(error) if isinstance(error, KubeError) else error
            sys.stderr.write(f"manta rollout: {text}\n")
            return 1


async def rollout_with(
    client: Client, options: RolloutOptions, namespace: str, stream: TextIO
) -> int:
    """Run the subcommand with a client; `namespace` is that of objects without one.

    Raises:
        ConfigurationError: the arguments name no object.
        RolloutError: it could not be done; the message says why and what to do.
        KubeError: the API server could not be reached, or refused.
    """
    workload = parse_workload(options.target, options.namespace or namespace or "default")
    report = Report(workload, stream, as_json=options.output == "json")
    match options.action:
        case "status":
            found = await follow(
                client, workload, report, watch=options.watch, patience=options.timeout
            )
            report.value(msgspec.to_builtins(found))
            return 1 if found.state == "failed" else 0
        case "pause" | "resume":
            await set_paused(client, workload, report, paused=options.action == "pause")
        case "undo":
            revision, dry_run = options.revision, options.dry_run
            await undo(client, workload, report, revision=revision, dry_run=dry_run)
        case "history":
            await show_history(client, workload, report, revision=options.revision)
    return 0
