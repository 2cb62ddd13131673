"""Records the groups whose turn in a rolling update has begun, in a condition of the cluster.

A turn is recorded before any pod of the group is deleted, so that a restarted operator knows for
which replacements to wait. Every definition keeps conditions; KubeRay's drop `status.upgrade`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.apimachinery.conditions import find_condition
from controller.ray.api.cluster_condition_types import GROUPS_UPGRADING

if TYPE_CHECKING:
    from collections.abc import Collection

    from controller.apimachinery.conditions import ConditionSet
    from controller.ray.cluster.observation import ClusterObservation

_SEPARATOR: Final = ", "


def recorded_turns(seen: ClusterObservation) -> frozenset[str]:
    """Return the names of the groups whose turn has begun."""
    condition = find_condition(seen.conditions, GROUPS_UPGRADING) or {}
    if condition.get("status") != "True":
        return frozenset()
    return frozenset(filter(None, str(condition.get("message")).split(_SEPARATOR)))


def set_turns(conditions: ConditionSet, begun: Collection[str]) -> None:
    """Set the condition to True with the names of the groups; remove it without any."""
    if begun:
        conditions.set(GROUPS_UPGRADING, "True", "Rolling", _SEPARATOR.join(sorted(begun)))
    else:
        conditions.remove(GROUPS_UPGRADING)
