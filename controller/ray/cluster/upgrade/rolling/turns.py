"""The record of the groups whose turn in a rolling update has begun: a condition of the cluster.

It is stored before any of their pods goes, so that an operator that starts anew knows whose
replacements are waited for. Every definition keeps conditions; KubeRay's drop `status.upgrade`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.apimachinery.conditions import ConditionSet, find_condition
from controller.ray.api.cluster_condition_types import GROUPS_UPGRADING
from controller.ray.api.raycluster import RAYCLUSTERS
from controller.runtime.reconcile.status.commit import status_commit

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from controller.ray.cluster.observation import ClusterObservation
    from controller.runtime.plan import MergePatch

_SEPARATOR: Final = ", "


def recorded_turns(seen: ClusterObservation) -> frozenset[str]:
    """Names of the groups whose turn has begun."""
    condition = find_condition(seen.conditions, GROUPS_UPGRADING) or {}
    if condition.get("status") != "True":
        return frozenset()
    return frozenset(filter(None, str(condition.get("message")).split(_SEPARATOR)))


def record_turns(seen: ClusterObservation, now: datetime) -> MergePatch | None:
    """The write that records turns that begin now; None if none does."""
    begun = seen.rollout.begun if seen.rollout is not None else frozenset[str]()
    if begun <= recorded_turns(seen):
        return None
    meta = seen.cluster.metadata
    conditions = ConditionSet(seen.conditions, meta.generation, now)
    set_turns(conditions, begun)
    return status_commit(RAYCLUSTERS, meta, "turns", {"conditions": conditions.as_list()})


def set_turns(conditions: ConditionSet, begun: Collection[str]) -> None:
    """True with the names of the groups; absent without any."""
    if begun:
        conditions.set(GROUPS_UPGRADING, "True", "Rolling", _SEPARATOR.join(sorted(begun)))
    else:
        conditions.remove(GROUPS_UPGRADING)
