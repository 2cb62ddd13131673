"""The deadline of the annotation `ray.io/initializing-timeout`.

A RayService that does not serve in time fails: its clusters are deleted, so that they do not hold
GPUs for ever. An edit or a suspension starts the time anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.conditions import (
    READY,
    ConditionSet,
    counted_from,
    find_condition,
    time_of,
)
from controller.ray.api.fields.initializing_timeout import initializing_timeout
from controller.ray.api.rayservice import RAYSERVICES
from controller.ray.service.cluster.writes import delete_replaced
from controller.ray.service.observation import ACTIVE, PENDING
from controller.runtime.plan import Event, Plan
from controller.runtime.reconcile.status.commit import status_commit

if TYPE_CHECKING:
    from datetime import datetime

    from controller.ray.service.observation import ServiceObservation
    from controller.runtime.plan import MergePatch

TIMED_OUT: Final = "InitializingTimeout"
"""Reason of `Ready`, KubeRay's."""


def plan_timeout(seen: ServiceObservation, now: datetime) -> Plan | None:
    """Plan for a deadline that has passed; None if it has not."""
    ready = find_condition(seen.status.get("conditions", ()), READY) or {}
    if ready.get("reason") == TIMED_OUT:
        if ready.get("observedGeneration") != seen.service.metadata.generation:
            return Plan(commit=_patch(seen, now, "Initializing", "the specification was edited"))
        return Plan(
            independent=tuple(delete_replaced(seen, now)),
            requeue_after=10.0 if seen.others else None,
        )
    left = seconds_to_timeout(seen, now)
    if left is None or left > 0:
        return None
    message = (
        "RayService failed to become ready within the configured timeout; edit or suspend it to "
        f"try again: {ready.get('message', '')}"
    ).rstrip(": ")
    return Plan(commit=_patch(seen, now, TIMED_OUT, message))


def seconds_to_timeout(seen: ServiceObservation, now: datetime) -> float | None:
    """Return the seconds until the deadline; None if there is none.

    If a clock that was ahead has written its beginning, it counts from when the clock is steady.
    """
    timeout = initializing_timeout(seen.service.metadata.annotations)
    ready = find_condition(seen.status.get("conditions", ()), READY) or {}
    if timeout is None or ready.get("reason") != "Initializing":
        return None
    since = time_of(ready.get("lastTransitionTime"))
    if since is None:
        return None
    since = counted_from(since, seen.clock_steady_since, now)
    return timeout.total_seconds() - (now - since).total_seconds()


def _patch(seen: ServiceObservation, now: datetime, reason: str, message: str) -> MergePatch:
    meta = seen.service.metadata
    conditions = ConditionSet(seen.status.get("conditions", ()), meta.generation, now)
    conditions.remove(READY)
    conditions.set(READY, "False", reason, message)
    status: dict[str, Any] = {
        ACTIVE: None,
        PENDING: None,
        "conditions": conditions.as_list(),
        "observedGeneration": meta.generation,
    }
    timed_out = Event("Warning", f"RayService{TIMED_OUT}", "Reconcile", message)
    told = timed_out if reason == TIMED_OUT else None
    return status_commit(RAYSERVICES, meta, "rollout", status, told)
