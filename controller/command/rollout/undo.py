"""`manta rollout undo`: restores the templates of an earlier revision."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import msgspec

from controller.command.planning.differences import differences
from controller.command.rollout.change import change, read
from controller.command.rollout.revisions import choose, revisions_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controller.command.planning.differences import Difference
    from controller.command.rollout.report import Report
    from controller.command.rollout.workload import Workload
    from controller.kube.client import Client


async def undo(
    client: Client, workload: Workload, report: Report, *, revision: int, dry_run: bool
) -> None:
    """Restore the templates of a revision.

    Args:
        client: to read and write with.
        workload: what is rolled back.
        report: gets the result.
        revision: its number; 0 for the newest one but the present one.
        dry_run: whether only to report what would change.

    Raises:
        RolloutError: there is no such revision, or there are no rolling updates.
    """
    kind, present = workload.kind, await read(client, workload)
    paused = kind.is_paused(present)
    chosen = choose(await revisions_of(client, workload, present), revision, workload)
    wanted = kind.with_templates(present, chosen.templates)
    edits = list(differences(kind.templates_of(present), kind.templates_of(wanted)))
    for sentence in kind.left_alone(present, chosen.templates):
        sys.stderr.write(f"note: {sentence}\n")
    number = chosen.revision
    if not edits:
        report.result(f"skipped rollback (current template already matches revision {number})")
    elif dry_run:
        report.result(f"would be rolled back to revision {number}", edits=edits)
        _show(report, edits)
    else:
        await change(client, workload, lambda obj: kind.with_templates(obj, chosen.templates))
        report.result(f"rolled back to revision {number}")
        if paused:
            remedy = f"manta rollout resume {workload.argument}"
            sys.stderr.write(f"note: it is paused; no pod is replaced before `{remedy}`\n")


def _show(report: Report, edits: Sequence[Difference]) -> None:
    for each in edits:
        old, new = (msgspec.json.encode(value).decode() for value in (each.old, each.new))
        report.line(f"  {each.path}: {old} -> {new}", "yellow")
