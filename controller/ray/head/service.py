"""The head service and its ports."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

from controller.ray.api import labels
from controller.ray.api.ports import DASHBOARD_PORT, GCS_PORT, METRICS_PORT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.ray.api.raycluster import ClusterSpec
    from controller.ray.head.identity import Identity

Body = dict[str, Any]

_DEFAULT_PORTS: Final = {
    "client": 10001,
    "gcs-server": GCS_PORT,
    "dashboard": DASHBOARD_PORT,
    "metrics": METRICS_PORT,
    "serve": 8000,
}
_SELECTED_BY: Final = (
    labels.CLUSTER,
    labels.NODE_TYPE,
    labels.IDENTIFIER,
    labels.APP_NAME,
    labels.CREATED_BY,
)


def head_service(
    spec: ClusterSpec,
    identity: Identity,
    head_labels: Mapping[str, str],
    *,
    cluster_ip: bool,
) -> Body:
    """Return the head service: generated, or the user's own with selector and ports completed.

    Args:
        spec: the cluster's specification.
        identity: names of the cluster's objects.
        head_labels: the final labels of the head pod, overrides included.
        cluster_ip: whether a generated service gets a cluster IP.
    """
    group = spec.head_group_spec
    ports = _completed([], [_port(*each) for each in head_ports(spec).items()])
    if group.head_service is None:
        service_spec: Body = {"ports": sorted(ports, key=lambda port: port["name"])}
        if group.service_type in {"", "ClusterIP"} and not cluster_ip:
            service_spec |= {"clusterIP": "None", "publishNotReadyAddresses": True}
    else:
        service_spec = copy.deepcopy(group.head_service.get("spec", {}))
        service_spec["ports"] = _completed(service_spec.get("ports", []), ports)
    service_spec["selector"] = {key: head_labels[key] for key in _SELECTED_BY}
    service_spec.setdefault("type", group.service_type or "ClusterIP")
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _head_metadata(spec, identity, head_labels),
        "spec": service_spec,
    }


def head_ports(spec: ClusterSpec) -> dict[str, int]:
    """Return the head's ports by name: those of its Ray container, or Ray's defaults."""
    declared: dict[str, int] = {
        port.get("name") or f"{port['containerPort']}-port": port["containerPort"]
        for port in spec.head_group_spec.template["spec"]["containers"][0].get("ports", ())
    }
    ports = declared or dict(_DEFAULT_PORTS)
    ports.setdefault("metrics", METRICS_PORT)
    return ports


def serve_ports(spec: ClusterSpec) -> dict[str, int]:
    """Return the head's ports for Ray Serve."""
    return {
        name: number
        for name, number in head_ports(spec).items()
        if name == "serve" or name.startswith("serve-")
    }


def _head_metadata(spec: ClusterSpec, identity: Identity, head_labels: Mapping[str, str]) -> Body:
    given: Body = (spec.head_group_spec.head_service or {}).get("metadata", {})
    defaults = identity.pod_labels("head", labels.HEAD_GROUP)
    own = {key: defaults[key] for key in _SELECTED_BY}
    own[labels.APP_NAME] = head_labels[labels.APP_NAME]
    metadata: Body = {
        "name": identity.head_service,
        "namespace": identity.namespace,
        "labels": given.get("labels", {}) | own,
        "ownerReferences": [identity.owner],
    }
    annotations = given.get("annotations", {}) | (spec.head_service_annotations or {})
    if annotations:
        metadata["annotations"] = annotations
    return metadata


def _completed(own: list[Body], ports: list[Body]) -> list[Body]:
    """Return the user's ports, and each generated port whose name and number are free."""
    result = [{**port, "name": port.get("name") or f"{port['port']}-port"} for port in own]
    names = {port["name"] for port in result}
    numbers = {port["port"] for port in result if port.get("protocol", "TCP") == "TCP"}
    for port in ports:
        if port["name"] not in names and port["port"] not in numbers:
            result.append(port)
            numbers.add(port["port"])
    return result


def _port(name: str, number: int) -> dict[str, Any]:
    return {"name": name, "port": number, "appProtocol": "tcp"}
