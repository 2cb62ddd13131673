"""Pods as tables and words for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.kube.objects import Pod

_COLOURS = {"Ready": "green", "Succeeded": "green", "Failed": "red", "Terminating": "magenta"}


def pod_state(pod: Pod | None) -> str:
    """Return one word for a pod, as `kubectl get pods` would put it."""
    if pod is None:
        return "gone"
    if pod.metadata.terminating:
        return "Terminating"
    if any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions):
        return "Ready"
    for container in pod.status.container_statuses:
        if container.state.waiting and container.state.waiting.reason:
            return container.state.waiting.reason
    return pod.status.phase or "Pending"


def role_of(pod: Pod) -> str:
    """Return `head`, `worker`, or `submitter` for the pods of a Job; empty for all others."""
    labels = pod.metadata.labels or {}
    return labels.get("ray.io/node-type", "submitter" if "job-name" in labels else "")


def pods_table(title: str, pods: Mapping[str, Pod]) -> Any:
    """Return a table of pods for `rich`."""
    from rich.table import Table  # noqa: PLC0415  an extra
    from rich.text import Text  # noqa: PLC0415

    table = Table(title=title, min_width=72)
    for column in ("pod", "role", "state"):
        table.add_column(column)
    for key in sorted(pods):
        state = pod_state(pods[key])
        shown = Text(state, style=_COLOURS.get(state, "yellow"))
        table.add_row(key.partition("/")[2], role_of(pods[key]), shown)
    return table
