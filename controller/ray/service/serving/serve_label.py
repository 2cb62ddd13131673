"""Sets the label that admits a pod to the service of the applications, by its proxy's health."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.kube.resources import PODS
from controller.ray.api import labels
from controller.ray.api.pod_state import is_head
from controller.ray.head.identity import SERVE_LABEL_SCOPE
from controller.ray.service.serving.proxies import gated_pods, last_resorts, takes_requests
from controller.runtime.plan import Event, MergePatch, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.kube.objects import Pod
    from controller.ray.service.observation import ServiceObservation
    from controller.ray.service.settings import ServiceSettings
    from controller.runtime.plan import Write


def label_pods(seen: ServiceObservation, settings: ServiceSettings) -> Iterator[Write]:
    """Yield label pods by whether their proxies take requests; unknown states change nothing.

    Where no other endpoint is left, a proxy that has not answered in time keeps its requests: a
    slow answer is better than a service without endpoints.
    """
    for cluster in seen.clusters:
        kept = last_resorts(cluster)
        for pod in gated_pods(cluster, settings, excludes_head=seen.excludes_head):
            if pod.metadata.uid not in kept:
                yield from _labelled(pod, serves=takes_requests(cluster, pod))
        if seen.excludes_head and cluster.head is not None:
            yield from _labelled(cluster.head.pod, serves=False)


def _labelled(pod: Pod, *, serves: bool | None) -> Iterator[Write]:
    meta = pod.metadata
    wanted = str(serves).lower()
    if serves is None or (meta.labels or {}).get(labels.SERVE) == wanted:
        return
    role = "Head" if is_head(pod) else "Worker"
    note = f"{role} pod {meta.name} serves: {wanted}"
    scope = f"{role}{SERVE_LABEL_SCOPE}"
    updated = Event("Normal", f"Updated{scope}", "Update", note)
    target = Target(PODS, meta.namespace, meta.name, scope)
    patch = {"metadata": {"labels": {labels.SERVE: wanted}}}
    yield MergePatch(target, meta.uid, patch, on_success=updated)
