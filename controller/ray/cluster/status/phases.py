"""The times until a RayCluster had its pods and until they were ready: two SLIs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.conditions import is_true, time_of
from controller.apimachinery.custom_object import mapping, status_of
from controller.ray.api.cluster_condition_types import PROVISIONED
from controller.runtime.plan import PhaseDuration

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from controller.ray.cluster.observation import ClusterObservation

PODS_CREATED: Final = "pods_created"
"""Phase from the creation of the cluster to that of its last pod."""

PODS_READY: Final = "pods_ready"
"""Phase from the creation of the last pod until all pods were first ready."""


def provisioning_phases(
    seen: ClusterObservation, wanted: Sequence[dict[str, Any]], now: datetime
) -> tuple[PhaseDuration, ...]:
    """Return the phases that end when `RayClusterProvisioned` becomes True.

    The repeated provisioning of a suspended cluster is not measured.
    """
    if is_true(seen.conditions, PROVISIONED) or not is_true(wanted, PROVISIONED):
        return ()
    if "suspended" in mapping(status_of(seen.cluster).get("stateTransitionTimes")):
        return ()
    created = time_of(seen.cluster.metadata.creation_timestamp)
    pods = [time_of(pod.metadata.creation_timestamp) for pod in seen.all_pods]
    if created is None or None in pods:
        return ()
    last = max(filter(None, pods))
    return (
        PhaseDuration(PODS_CREATED, _seconds(created, last)),
        PhaseDuration(PODS_READY, _seconds(last, now)),
    )


def _seconds(start: datetime, end: datetime) -> float:
    return max(0.0, (end - start).total_seconds())
