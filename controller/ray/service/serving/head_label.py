"""The label that admits a head to the service of the applications."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.kube.resources import PODS
from controller.ray.api import labels
from controller.ray.dashboard import ServeState
from controller.runtime.reconcile.plan import Event, MergePatch, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.kube.objects import Pod
    from controller.ray.service.observation import ServiceObservation, ServingCluster
    from controller.runtime.reconcile.plan import Write

HEALTHY = "HEALTHY"


def label_heads(seen: ServiceObservation) -> Iterator[Write]:
    """Label each head by whether its proxy serves; a dashboard without answer changes nothing."""
    for cluster in seen.clusters:
        wanted = _wanted(seen, cluster)
        if cluster.head is None or wanted is None:
            continue
        meta = cluster.head.pod.metadata
        if (meta.labels or {}).get(labels.SERVE) != wanted:
            updated = Event(
                "Normal",
                "UpdatedHeadPodServeLabel",
                "Update",
                f"Head pod {meta.name} serves: {wanted}",
            )
            target = Target(PODS, meta.namespace, meta.name, "head label")
            patch = {"metadata": {"labels": {labels.SERVE: wanted}}}
            yield MergePatch(target, meta.uid, patch, on_success=updated)


def _wanted(seen: ServiceObservation, cluster: ServingCluster) -> str | None:
    """The label's value; None while it is not known."""
    if seen.valid_goal.spec.exclude_head_pod_from_serve_svc:
        return "false"
    state = cluster.answer.value if cluster.answer is not None else None
    if cluster.head is None or not isinstance(state, ServeState):
        return None
    return str(_proxy(state, cluster.head.pod) == HEALTHY and bool(state.applications)).lower()


def _proxy(state: ServeState, head: Pod) -> str:
    return state.proxies.get(head.status.pod_ip or "", "")
