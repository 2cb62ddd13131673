"""The services of a RayCluster: one in front of the head, one that names multi-host workers."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

from controller.ray.api import labels
from controller.ray.cluster.start_command import DASHBOARD_PORT, GCS_PORT, METRICS_PORT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.ray.api.raycluster import ClusterSpec
    from controller.ray.cluster.identity import Identity

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
    """The service in front of the head: generated, or the user's own made to lead there.

    Args:
        spec: the cluster's specification.
        identity: names of the cluster's parts.
        head_labels: labels that the head pod really gets, overrides included.
        cluster_ip: whether a cluster IP is wanted where the user said nothing.
    """
    group = spec.head_group_spec
    ports = _ports(group.template["spec"]["containers"][0])
    if group.head_service is None:
        service_spec: Body = {"ports": sorted(ports, key=lambda port: port["name"])}
        if group.service_type in {"", "ClusterIP"} and not cluster_ip:
            service_spec |= {"clusterIP": "None", "publishNotReadyAddresses": True}
    else:
        service_spec = copy.deepcopy(group.head_service.get("spec", {}))
        own: list[Body] = service_spec.get("ports", [])
        names = {port.get("name") for port in own}
        service_spec["ports"] = own + [port for port in ports if port["name"] not in names]
    service_spec["selector"] = {key: head_labels[key] for key in _SELECTED_BY}
    service_spec.setdefault("type", group.service_type or "ClusterIP")
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _head_metadata(spec, identity, head_labels),
        "spec": service_spec,
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
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {labels.CLUSTER: identity.name, labels.NODE_TYPE: labels.WORKER},
        },
    }


def _ports(ray: Mapping[str, Any]) -> list[Body]:
    declared = {
        port.get("name") or f"{port['containerPort']}-port": port["containerPort"]
        for port in ray.get("ports", ())
    }
    ports = declared or dict(_DEFAULT_PORTS)
    ports.setdefault("metrics", METRICS_PORT)
    return [{"name": n, "port": p, "appProtocol": "tcp"} for n, p in ports.items()]
