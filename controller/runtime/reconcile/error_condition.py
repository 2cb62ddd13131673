"""The status of an object whose reconcile raised an exception.

The kind itself failed and cannot compute the status. Only the condition `Ready` changes, which
every kind sets itself as soon as it can reconcile again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.apimachinery.conditions import READY, ConditionSet
from controller.runtime.plan import StatusPatch
from controller.runtime.reconcile.status.changes import conditions_in, stored_status

if TYPE_CHECKING:
    from datetime import datetime

    from controller.kube.objects import KubeObject


def error_status(primary: KubeObject, reason: str, message: str, now: datetime) -> StatusPatch:
    """Return the status with `Ready` False because of this error, and the rest unchanged."""
    present = [*conditions_in(stored_status(primary))]
    conditions = ConditionSet(present, primary.metadata.generation, now)
    conditions.set(READY, "False", reason, message)
    return StatusPatch({"conditions": conditions.as_list()})
