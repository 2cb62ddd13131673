"""Probes of Serve proxies: which are probed, and what their answers mean.

Proxies are probed on their own port, because Ray keeps reporting a dead proxy as healthy. Manta
probes the head's. The kubelet probes those of workers as part of their readiness, unless the user
has replaced the readiness probe: then Manta probes them too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

from msgspec.structs import replace

from controller.apimachinery.custom_object import dig
from controller.kube.objects import Pod
from controller.kube.resources import PODS
from controller.ray.api import labels
from controller.ray.api.pod_state import group_of, is_head, is_ready, ray_container, ray_status
from controller.ray.api.raycluster import ClusterSpec
from controller.ray.dashboard import ServeProxy
from controller.ray.dashboard.commands import CommandDone
from controller.ray.dashboard.probes import ProbeObservation
from controller.ray.dashboard.serve import (
    ProxyHealth,
    ServeApplication,
    ServeDeployment,
    ServeState,
)
from controller.ray.head import SERVE_LABEL_SCOPE
from controller.ray.service.observation import ServiceObservation, ServingCluster
from controller.ray.settings import RaySettings
from controller.runtime.plan import Event, MergePatch, Target, Write

_PORT_NAME: Final = "serve"
_DEFAULT_PORT: Final = 8000


def gated_pods(cluster: ServingCluster, settings: RaySettings) -> Iterator[Pod]:
    """Yield pods that may get requests and whose proxies no kubelet probes."""
    if cluster.head is None or cluster.head.terminating or cluster.spec is None:
        return
    if not cluster.excludes_head:
        yield cluster.head.pod
    groups = _unprobed_groups(cluster.spec, settings)
    for worker in cluster.workers if groups else ():
        if group_of(worker) in groups:
            yield worker


def proxy_on(cluster: ServingCluster, pod: Pod) -> ServeProxy | None:
    """Return the proxy on a ready pod; None if Serve has nothing to serve yet.

    Before Serve runs nothing listens on its port. A pod that has the label is asked even while
    the dashboard says nothing, or finds no controller of Serve.
    """
    if cluster.head is None or not pod.status.pod_ip or not is_ready(pod):
        return None
    listed = _listed(cluster)
    if not (is_admitted(pod) if listed is None else listed):
        return None
    head, ray = cluster.head.dashboard, ray_status(pod)
    return ServeProxy(
        head.cluster_uid,
        pod.metadata.uid,
        ray.restart_count if ray is not None else 0,
        head.namespace,
        head.service,
        _serve_port(pod),
        pod=pod.metadata.name,
        address=pod.status.pod_ip,
    )


def takes_requests(cluster: ServingCluster, pod: Pod) -> bool | None:
    """Return whether the proxy on a gated pod takes requests; None while that is unknown.

    A pod that is not ready takes none until its next answer: its container may have been restarted.
    """
    listed = _listed(cluster)
    if labels.DRAINING_SINCE in (pod.metadata.annotations or {}):
        return False
    if not is_ready(pod) or (listed is not None and not listed):
        return False
    seen = cluster.proxies.get(pod.metadata.uid)
    if seen is None:
        return None
    if seen.failing_since is not None:
        return False
    return seen.value.healthy if isinstance(seen.value, ProxyHealth) else None


def endpoints_of(cluster: ServingCluster) -> tuple[Pod, ...]:
    """Return the pods to which the service of the applications would lead on this cluster."""
    return tuple(pod for pod in cluster.pods if is_ready(pod) and is_admitted(pod))


def accepts_requests(cluster: ServingCluster) -> bool:
    """Return whether the service of the applications may select the cluster: endpoints are ready.

    The head is one of them unless the user excludes it: Serve runs a proxy there first.
    """
    found = {pod.metadata.uid for pod in endpoints_of(cluster) if not _is_silent(cluster, pod)}
    if cluster.excludes_head:
        return bool(found)
    return cluster.head is not None and cluster.head.pod.metadata.uid in found


def last_resorts(cluster: ServingCluster) -> frozenset[str]:
    """Return the uids of the endpoints if none of their proxies answers; else none."""
    endpoints = endpoints_of(cluster)
    if not all(_is_silent(cluster, pod) for pod in endpoints):
        return frozenset()
    return frozenset(pod.metadata.uid for pod in endpoints)


def _is_silent(cluster: ServingCluster, pod: Pod) -> bool:
    """Return whether its proxy was probed and has not answered."""
    seen = cluster.proxies.get(pod.metadata.uid)
    return seen is not None and seen.failing_since is not None


def failure_of(seen: ProbeObservation) -> str:
    """Return a sentence about why a proxy takes no requests; empty if no failure is known."""
    if seen.failing_since is not None:
        return seen.error
    return seen.value.message if isinstance(seen.value, ProxyHealth) else ""


def is_admitted(pod: Pod) -> bool:
    """Return whether its label admits it to the service of the applications."""
    return (pod.metadata.labels or {}).get(labels.SERVE) == "true"


def serve_state(cluster: ServingCluster) -> ServeState | None:
    """Return Serve's report; None while it has not reported.

    A dashboard without a timely answer of Serve's controller reports the same as one of a cluster
    where Serve does not run. While a proxy takes requests, such a report is ignored.
    """
    state = _reported(cluster)
    if state is None or state.has_controller:
        return state
    return None if any(_may_serve(cluster, pod) for pod in endpoints_of(cluster)) else state


def _may_serve(cluster: ServingCluster, pod: Pod) -> bool:
    """Return whether Manta probes the proxy of an endpoint, and it has not failed to answer.

    A head counts before its first probe: it became an endpoint because its proxy had answered.
    """
    is_asked = is_head(pod) or pod.metadata.uid in cluster.proxies
    return is_asked and not _is_silent(cluster, pod)


def _reported(cluster: ServingCluster) -> ServeState | None:
    state = cluster.answer.value if cluster.answer is not None else None
    return state if isinstance(state, ServeState) else None


def _listed(cluster: ServingCluster) -> Mapping[str, ServeApplication] | None:
    """Return the applications that Serve's controller lists; None if it is unknown."""
    state = _reported(cluster)
    return state.applications if state is not None and state.has_controller else None


def _unprobed_groups(spec: ClusterSpec, settings: RaySettings) -> frozenset[str]:
    """Return worker groups whose readiness does not include that of the proxy."""
    return frozenset(
        group.group_name
        for group in spec.worker_group_specs
        if not settings.probes
        or dig(group.template, "spec", "containers", 0, "readinessProbe") is not None
    )


def _serve_port(pod: Pod) -> int:
    container = ray_container(pod)
    ports = container.ports if container is not None else ()
    named = (each.container_port for each in ports if each.name == _PORT_NAME)
    return next(named, _DEFAULT_PORT)


# Sets the label that admits a pod to the service of the applications, by its proxy's health.


def label_pods(seen: ServiceObservation) -> Iterator[Write]:
    """Yield label pods by whether their proxies take requests; unknown states change nothing.

    Where no other endpoint is left, a proxy that has not answered in time keeps its requests: a
    slow answer is better than a service without endpoints.
    """
    for cluster in seen.clusters:
        kept = last_resorts(cluster)
        for pod in gated_pods(cluster, seen.settings):
            if pod.metadata.uid not in kept:
                yield from _labelled(pod, serves=takes_requests(cluster, pod))
        if cluster.excludes_head and cluster.head is not None:
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


# The assumptions of `manta plan` about Ray, which it does not contact.
#
# Serve runs what is stored on its cluster, at the capacity that the status asks for, and the proxy
# on every ready pod takes requests.

_SINCE = datetime(1970, 1, 1, tzinfo=UTC)


def with_assumed_serve(found: ServingCluster) -> ServingCluster:
    """Return the cluster with an obedient Serve; nothing is known without a stored config."""
    if found.head is None or found.config is None:
        return found
    applications = {
        name: ServeApplication(
            "RUNNING",
            deployments={"all": ServeDeployment("HEALTHY", target=1, running=1)},
            config=config,
        )
        for name, config in found.config.applications.items()
    }
    state = ServeState(applications, target_capacity=found.capacity)
    proxies = {
        pod.metadata.uid: _observation(ProxyHealth(healthy=True))
        for pod in found.pods
        if is_ready(pod)
    }
    done = CommandDone()
    return replace(found, answer=_observation(state), put_outcome=done, proxies=proxies)


def _observation(value: ServeState | ProxyHealth) -> ProbeObservation:
    return ProbeObservation(value, _SINCE)
