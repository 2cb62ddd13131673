"""The services of a RayCluster: in front of the head, for multi-host workers, for Ray Serve."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

from controller.ray.api import labels
from controller.ray.api.ports import DASHBOARD_PORT, GCS_PORT, METRICS_PORT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.kube.objects import ObjectMeta
    from controller.ray.api.raycluster import ClusterSpec
    from controller.ray.children.child import Body
    from controller.ray.head.identity import Identity

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
    """The service in front of the head: generated, or the user's own made to lead there.

    Args:
        spec: the cluster's specification.
        identity: names of the cluster's parts.
        head_labels: labels that the head pod really gets, overrides included.
        cluster_ip: whether a cluster IP is wanted where the user said nothing.
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
    """Numbers of the head's ports by name: those of its Ray container, or Ray's own."""
    declared: dict[str, int] = {
        port.get("name") or f"{port['containerPort']}-port": port["containerPort"]
        for port in spec.head_group_spec.template["spec"]["containers"][0].get("ports", ())
    }
    ports = declared or dict(_DEFAULT_PORTS)
    ports.setdefault("metrics", METRICS_PORT)
    return ports


def serve_ports(spec: ClusterSpec) -> dict[str, int]:
    """Those of the head's ports that Ray Serve listens on."""
    return {
        name: number
        for name, number in head_ports(spec).items()
        if name == "serve" or name.startswith("serve-")
    }


def headless_service_name(identity: Identity) -> str:
    """Name of the service of multi-host workers."""
    return f"{identity.name}-headless"


def needs_headless_service(spec: ClusterSpec) -> bool:
    """Whether some replica of some group is more than one pod."""
    return any(group.hosts > 1 for group in spec.worker_group_specs)


def headless_service(identity: Identity) -> Body:
    """The service that gives workers DNS names."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": headless_service_name(identity),
            "namespace": identity.namespace,
            "labels": {labels.HEADLESS_SERVICE: identity.name},
            "ownerReferences": [identity.owner],
        },
        "spec": {
            "type": "ClusterIP",
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {labels.CLUSTER: identity.name, labels.NODE_TYPE: labels.WORKER},
        },
    }


def serve_service_name(identity: Identity) -> str:
    """Name of the service in front of all pods that can serve."""
    return f"{identity.name}-serve-svc"


def is_serve_service(identity: Identity, meta: ObjectMeta) -> bool:
    """Whether it is the cluster's own: one of a RayService may have its name and its owner."""
    is_ours = (meta.labels or {}).get(labels.ORIGIN_KIND) == "RayCluster"
    return is_ours and meta.name == serve_service_name(identity)


def serve_service(spec: ClusterSpec, identity: Identity) -> Body:
    """The service for Ray Serve of a cluster that no RayService looks after."""
    ports = sorted(serve_ports(spec).items())
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": serve_service_name(identity),
            "namespace": identity.namespace,
            "labels": {
                labels.ORIGIN_NAME: identity.name,
                labels.ORIGIN_KIND: "RayCluster",
                labels.SERVE: f"{identity.name}-serve",
            },
            "ownerReferences": [identity.owner],
        },
        "spec": {
            "type": spec.head_group_spec.service_type or "ClusterIP",
            "selector": {labels.CLUSTER: identity.name},
            "ports": [{"name": name, "port": number} for name, number in ports],
        },
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
    """A user's ports, and ours where neither the name nor the number is taken."""
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
