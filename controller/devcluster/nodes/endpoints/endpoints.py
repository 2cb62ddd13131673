"""The desired EndpointSlices of a Service: a pure function of the Service and its pods."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from controller.devcluster.nodes.objects.pods import PodConditionType

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controller.devcluster.nodes.objects.pods import KubeletPod
    from controller.kube.objects import Service, ServicePort

MOST_ENDPOINTS = 1000
"""Maximum endpoints in one slice, as the API allows."""


@dataclass(frozen=True, slots=True)
class Slice:
    """Contents of one EndpointSlice."""

    ports: list[dict[str, Any]]
    endpoints: list[dict[str, Any]]


def selects(selector: Mapping[str, str], labels: Mapping[str, str] | None) -> bool:
    """Return whether an object with `labels` is selected; an empty selector selects nothing."""
    present = labels or {}
    return bool(selector) and all(present.get(key) == value for key, value in selector.items())


def slices_of(service: Service, pods: Iterable[KubeletPod]) -> list[Slice]:
    """Return the slices of `service`: one for pods with the same port numbers, sorted by name.

    A service without pods has one empty slice, as upstream.
    """
    by_ports: dict[str, Slice] = {}
    for pod in sorted(pods, key=lambda pod: pod.metadata.name):
        if not pod.status.pod_ip or pod.is_finished:
            continue
        ports = [_port(port, pod) for port in service.spec.ports]
        known = [port for port in ports if port is not None]
        group = by_ports.setdefault(json.dumps(known, sort_keys=True), Slice(known, []))
        group.endpoints.append(_endpoint(service, pod))
    if not by_ports:
        return [Slice([], [])]
    return [
        Slice(group.ports, group.endpoints[start : start + MOST_ENDPOINTS])
        for _, group in sorted(by_ports.items())
        for start in range(0, len(group.endpoints), MOST_ENDPOINTS)
    ]


def _port(port: ServicePort, pod: KubeletPod) -> dict[str, Any] | None:
    """Return one port of the slice; None if the pod has no port of that name."""
    target = port.target_port or port.port
    number = target if isinstance(target, int) else _named_port(target, port.protocol, pod)
    if number is None:
        return None
    resolved = {"name": port.name, "port": number, "protocol": port.protocol}
    return resolved | ({"appProtocol": port.app_protocol} if port.app_protocol else {})


def _named_port(name: str, protocol: str, pod: KubeletPod) -> int | None:
    for container in pod.spec.containers:
        for port in container.ports:
            if (port.name, port.protocol) == (name, protocol):
                return port.container_port
    return None


def _endpoint(service: Service, pod: KubeletPod) -> dict[str, Any]:
    serving = pod.status.is_true(PodConditionType.READY)
    terminating = pod.metadata.terminating
    ready = service.spec.publish_not_ready_addresses or (serving and not terminating)
    return {
        "addresses": [pod.status.pod_ip],
        "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
        "nodeName": pod.spec.node_name,
        "targetRef": {
            "kind": "Pod",
            "name": pod.metadata.name,
            "namespace": pod.metadata.namespace,
            "uid": pod.metadata.uid,
        },
    }
