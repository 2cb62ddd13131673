"""Text about the clusters that are to be deleted when their connections are closed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.apimachinery.conditions import rfc3339
from controller.ray.dashboard import CommandDone

if TYPE_CHECKING:
    from datetime import datetime

    from controller.ray.service.observation import Closing, ServiceObservation


def closing_text(seen: ServiceObservation, now: datetime) -> str:
    """Return clauses about the clusters that are to be deleted; empty if there is none."""
    found = {each.cluster: each for each in seen.closings if each.ends}
    names = sorted(each.metadata.name for each in seen.others if each.metadata.name in found)
    return "; ".join(_text(found[name], now) for name in names)


def _text(closing: Closing, now: datetime) -> str:
    due = rfc3339(closing.due)
    if isinstance(closing.outcome, CommandDone):
        return f"cluster {closing.cluster} has no connection left and is deleted at {due}"
    if closing.outcome is not None:
        return (
            f"cluster {closing.cluster} is deleted at {due} with the connections that are open "
            f"then, because its Serve proxies could not close them: {closing.outcome.message}"
        )
    waits = f"waits for its Serve proxies to close their connections, at least until {due}"
    if now >= closing.due:
        waits = f"{waits.partition(',')[0]}, at most until {rfc3339(closing.deadline)}"
    return f"the deletion of cluster {closing.cluster} {waits}"
