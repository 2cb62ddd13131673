"""Columns of pods: the status is computed from phase, conditions and container states."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from controller.devcluster.apiserver.columns.cells import NONE, at, column, joined
from controller.devcluster.apiserver.columns.column import AGE, NAME, Column, since
from controller.devcluster.apiserver.jsondata import child, entries

if TYPE_CHECKING:
    from datetime import datetime

    from controller.devcluster.apiserver.jsondata import Json


class PodSummary(NamedTuple):
    """A pod's columns.

    Attributes:
        status: the word in the STATUS column.
        ready: number of ready containers.
        restarts: restarts of all containers.
        restarted: time of the last restart, if any.
    """

    status: str
    ready: int
    restarts: int
    restarted: str | None


def summary(pod: Json) -> PodSummary:
    """Compute the short form of a pod."""
    status = child(pod, "status")
    reason = status.get("reason") or status.get("phase", "")
    waiting_for_init = _initializing(pod)
    statuses = entries(status, "containerStatuses")
    counted = statuses
    if waiting_for_init and not _has_condition(pod, "Initialized"):
        reason, counted = waiting_for_init, entries(status, "initContainerStatuses")
    else:
        reason = _container_reason(statuses, reason, ready=_has_condition(pod, "Ready"))
    if at(pod, "metadata.deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            reason = "Unknown"
        elif status.get("phase") not in {"Failed", "Succeeded"}:
            reason = "Terminating"
    finished: list[str | None] = [at(one, "lastState.terminated.finishedAt") for one in counted]
    return PodSummary(
        reason,
        sum(bool(one.get("ready")) and "running" in child(one, "state") for one in statuses),
        sum(one.get("restartCount", 0) for one in counted),
        max(filter(None, finished), default=None),
    )


def _has_condition(pod: Json, kind: str) -> bool:
    return any(
        condition.get("type") == kind and condition.get("status") == "True"
        for condition in entries(child(pod, "status"), "conditions")
    )


def _ended(terminated: Json) -> str:
    if terminated.get("reason"):
        return terminated["reason"]
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _initializing(pod: Json) -> str:
    """Return the status of the first init container that is not done; empty if all are."""
    total = len(entries(child(pod, "spec"), "initContainers"))
    for index, one in enumerate(entries(child(pod, "status"), "initContainerStatuses")):
        terminated, waiting = at(one, "state.terminated"), at(one, "state.waiting.reason")
        if terminated is not None:
            if terminated.get("exitCode", 0) == 0:
                continue
            return f"Init:{_ended(terminated)}"
        if waiting and waiting != "PodInitializing":
            return f"Init:{waiting}"
        return f"Init:{index}/{total}"
    return ""


def _container_reason(statuses: list[Json], reason: str, *, ready: bool) -> str:
    running = False
    for one in reversed(statuses):
        terminated, waiting = at(one, "state.terminated"), at(one, "state.waiting.reason")
        if waiting:
            reason = waiting
        elif terminated is not None:
            reason = _ended(terminated)
        elif one.get("ready") and "running" in child(one, "state"):
            running = True
    if reason == "Completed" and running:
        return "Running" if ready else "NotReady"
    return reason


def _ready(pod: Json) -> str:
    return f"{summary(pod).ready}/{len(entries(child(pod, 'spec'), 'containers'))}"


def _restarts(pod: Json, now: datetime) -> str:
    short = summary(pod)
    if not short.restarts or not short.restarted:
        return str(short.restarts)
    return f"{short.restarts} ({since(short.restarted, now)} ago)"


COLUMNS = (
    NAME,
    column("Ready", _ready),
    column("Status", lambda pod: summary(pod).status),
    Column("Restarts", _restarts),
    AGE,
    column("IP", lambda pod: at(pod, "status.podIP", "") or NONE, wide=True),
    column("Node", lambda pod: at(pod, "spec.nodeName", "") or NONE, wide=True),
    column(
        "Nominated Node", lambda pod: at(pod, "status.nominatedNodeName", "") or NONE, wide=True
    ),
    column(
        "Readiness Gates",
        lambda pod: joined(
            gate.get("conditionType", "") for gate in entries(child(pod, "spec"), "readinessGates")
        ),
        wide=True,
    ),
)
