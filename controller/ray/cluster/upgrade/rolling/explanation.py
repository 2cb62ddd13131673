"""Decides whether an edit explains outdated pods: only then are they replaced.

An edit changes the generation of the RayCluster. A newer definition, or another operator that reads
the same specification in another way, does not (`held_deletions.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.apimachinery.conditions import find_condition
from controller.apimachinery.custom_object import status_of
from controller.ray.api.cluster_condition_types import (
    HEAD_POD_READY,
    PODS_UP_TO_DATE,
    UPGRADE_STRATEGY_NONE,
    UPGRADING,
)
from controller.ray.cluster.doubts.confirmation import is_confirmed
from controller.ray.cluster.doubts.definition import explains_rolling
from controller.ray.cluster.observed.rollout import Verdict

if TYPE_CHECKING:
    from controller.ray.cluster.observation import ClusterObservation


def is_explained(seen: ClusterObservation, *, only_head: bool) -> bool:
    """Return whether an edit explains outdated pods, or a user has confirmed their replacement.

    Args:
        seen: the cluster.
        only_head: whether only the head is left to replace.
    """
    if not explains_rolling(seen.definition):
        return False
    return (
        is_confirmed(seen.cluster)
        or _is_under_way(seen, only_head=only_head)
        or _was_reported_before(seen)
        or not _is_recorded(seen)
    )


def _is_under_way(seen: ClusterObservation, *, only_head: bool) -> bool:
    upgrading = find_condition(seen.conditions, UPGRADING) or {}
    waits_for_head = upgrading.get("reason") == Verdict.HEAD_NEEDS_FAULT_TOLERANCE.value
    return upgrading.get("status") == "True" and (only_head or not waits_for_head)


def _was_reported_before(seen: ClusterObservation) -> bool:
    """Return whether pods were outdated before the annotation asked for rolling updates."""
    found = find_condition(seen.conditions, PODS_UP_TO_DATE) or {}
    return found.get("status") == "False" and found.get("reason") == UPGRADE_STRATEGY_NONE


def _is_recorded(seen: ClusterObservation) -> bool:
    """Return whether the pods of the present generation were already counted.

    A refused specification is observed but not counted.
    """
    counted = (find_condition(seen.conditions, HEAD_POD_READY) or {}).get("observedGeneration")
    recorded = status_of(seen.cluster).get("observedGeneration")
    return counted == recorded == seen.cluster.metadata.generation
