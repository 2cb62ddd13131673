"""`manta rollout history`: lists the revisions that can be restored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import yaml

from controller.command.rollout.change import read
from controller.command.rollout.revisions import choose, revisions_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controller.command.rollout.report import Report
    from controller.command.rollout.revisions import TemplateRevision
    from controller.command.rollout.workload import Workload
    from controller.kube.client import Client

_COLUMNS = ("REVISION", "CURRENT", "CREATED", "IMAGES", "CHANGE-CAUSE")


async def show_history(
    client: Client, workload: Workload, report: Report, *, revision: int
) -> None:
    """Print all revisions, or the templates of the one with this number.

    Raises:
        RolloutError: the object or the revision does not exist.
    """
    found = await revisions_of(client, workload, await read(client, workload))
    if revision:
        _show_templates(report, workload, choose(found, revision, workload))
    else:
        _show_list(report, workload, found)


def _show_templates(report: Report, workload: Workload, revision: TemplateRevision) -> None:
    report.value(msgspec.to_builtins(revision))
    report.line(f"{workload} with revision #{revision.revision}", "bold")
    report.line(yaml.safe_dump(revision.templates, sort_keys=False).rstrip())


def _show_list(report: Report, workload: Workload, revisions: Sequence[TemplateRevision]) -> None:
    report.value({"revisions": list(map(_without_templates, revisions))})
    report.line(str(workload), "bold")
    current = next((n for n, each in enumerate(revisions, start=1) if each.current), None)
    report.table([_COLUMNS, *map(_row, revisions)], highlighted=current)


def _row(revision: TemplateRevision) -> tuple[str, ...]:
    return (
        str(revision.revision),
        "*" if revision.current else "",
        revision.created,
        ",".join(revision.images) or "<none>",
        revision.change_cause or "<none>",
    )


def _without_templates(revision: TemplateRevision) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.to_builtins(revision)
    return {key: value for key, value in told.items() if key != "templates"}
