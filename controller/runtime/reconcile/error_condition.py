"""The status of an object whose reconcile raised an exception.

The kind itself failed and cannot compute the status. Only the condition `Ready` changes, which
every kind sets itself as soon as it can reconcile again. A kind whose API defines the reasons of
`Ready` (a RayService) gets no reason of ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.apimachinery.conditions import READY, ConditionSet, find_condition
from controller.runtime.plan import StatusPatch
from controller.runtime.reconcile.status.changes import conditions_in, stored_status

if TYPE_CHECKING:
    from datetime import datetime

    from controller.kube.objects import KubeObject


def error_status(
    primary: KubeObject, reason: str, message: str, now: datetime, unready_reason: str = ""
) -> StatusPatch:
    """Return the status with `Ready` False because of this error, and the rest unchanged.

    With an `unready_reason` (`Kind.unready_reason`), `Ready` keeps its status and reason: whether
    the object is ready is not known, and its message names the error.
    """
    present = [*conditions_in(stored_status(primary))]
    generation = primary.metadata.generation
    if not unready_reason:
        conditions = ConditionSet(present, generation, now)
        conditions.set(READY, "False", reason, message)
        return StatusPatch({"conditions": conditions.as_list()})
    found = find_condition(present, READY) or {}
    status = "True" if found.get("status") == "True" else "False"
    conditions = ConditionSet(present, found.get("observedGeneration", generation), now)
    conditions.set(READY, status, found.get("reason") or unready_reason, f"{reason}: {message}")
    return StatusPatch({"conditions": conditions.as_list()})
