"""The condition that names fields over which the operator and another writer disagree.

It is the same for every kind, and present only while there is such a field.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.conditions import CONTESTED, ConditionSet

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from controller.runtime.reconcile.repairs.repairs import Repair

CONTESTED_REASON: Final = "FieldContested"
"""Reason of its event."""


def sentences_of(repairs: Iterable[Repair]) -> str:
    """Return what is said of these repairs, in an order that does not depend on theirs."""
    return "; ".join(sorted(map(str, repairs)))


def with_contested(
    wanted: Mapping[str, Any], contested: Sequence[Repair], generation: int, now: datetime
) -> Mapping[str, Any]:
    """Return the wanted status with the condition, unless it has no conditions."""
    if "conditions" not in wanted:
        return wanted
    conditions = ConditionSet(wanted["conditions"], generation, now)
    conditions.set_if(CONTESTED, "True", "AnotherWriter", sentences_of(contested))
    return {**wanted, "conditions": conditions.as_list()}
