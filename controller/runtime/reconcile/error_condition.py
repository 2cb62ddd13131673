"""The status of an object whose reconcile raised an exception.

The kind itself failed and cannot compute it. Only the condition `Ready` is changed, which every
kind sets itself as soon as it can reconcile again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import msgspec

from controller.apimachinery.conditions import READY, ConditionSet
from controller.runtime.reconcile.plan import StatusPatch

if TYPE_CHECKING:
    from datetime import datetime

    from controller.kube.objects import KubeObject


def error_status(primary: KubeObject, reason: str, message: str, now: datetime) -> StatusPatch:
    """The status in which `Ready` is False because of this error, and all else is as it was."""
    conditions = ConditionSet(_conditions_of(primary), primary.metadata.generation, now)
    conditions.set(READY, "False", reason, message)
    return StatusPatch({"conditions": conditions.as_list()})


def _conditions_of(primary: KubeObject) -> list[dict[str, Any]]:
    """The present conditions, leaving out what is not one."""
    status = msgspec.to_builtins(getattr(primary, "status", None))
    listed = cast("dict[str, Any]", status).get("conditions") if isinstance(status, dict) else None
    if not isinstance(listed, list):
        return []
    found = cast("list[Any]", listed)
    return [cast("dict[str, Any]", each) for each in found if isinstance(each, dict)]
