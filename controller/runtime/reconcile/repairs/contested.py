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

CONTESTED_FIELDS: Final = (
    f"another writer keeps undoing what is written to {{count}} objects; the condition {CONTESTED} "
    "names the first: configure or stop one of the two writers"
)
"""Note of the event about many objects."""

_MOST_SENTENCES: Final = 8


def sentences_of(repairs: Iterable[Repair]) -> str:
    """Return what is said of the first of these, in an order that does not depend on theirs."""
    sentences = sorted(map(str, repairs))
    more = len(sentences) - _MOST_SENTENCES
    rest = [f"and so with {more} more"] if more > 0 else []
    return "; ".join([*sentences[:_MOST_SENTENCES], *rest])


def with_contested(
    wanted: Mapping[str, Any], contested: Sequence[Repair], generation: int, now: datetime
) -> Mapping[str, Any]:
    """Return the wanted status with the condition, unless it has no conditions."""
    if "conditions" not in wanted:
        return wanted
    conditions = ConditionSet(wanted["conditions"], generation, now)
    conditions.set_if(CONTESTED, "True", "AnotherWriter", sentences_of(contested))
    return {**wanted, "conditions": conditions.as_list()}
