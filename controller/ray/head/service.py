"""The head service and its ports."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from controller.ray.api import labels

if TYPE_CHECKING:
    from controller.ray.api.raycluster import ClusterSpec
    from controller.ray.head.endpoint import HeadEndpoint
    from controller.ray.head.identity import Identity

Body = dict[str, Any]


def head_service(
    spec: ClusterSpec,
    identity: Identity,
    endpoint: HeadEndpoint,
    *,
    cluster_ip: bool,
) -> Body:
    """Return the head service: generated, or the user's own with selector and ports completed.

    Args:
        spec: the cluster's specification.
        identity: names of the cluster's objects.
        endpoint: the head to which the service leads.
        cluster_ip: whether a generated service gets a cluster IP.
    """
    group = spec.head_group_spec
    ports = _completed([], [_port(*each) for each in endpoint.ports.items()])
    if group.head_service is None:
        service_spec: Body = {"ports": sorted(ports, key=lambda port: port["name"])}
        if group.service_type in {"", "ClusterIP"} and not cluster_ip:
            service_spec |= {"clusterIP": "None", "publishNotReadyAddresses": True}
    else:
        service_spec = copy.deepcopy(group.head_service.get("spec", {}))
        service_spec["ports"] = _completed(service_spec.get("ports", []), ports)
    service_spec["selector"] = dict(endpoint.selector)
    service_spec.setdefault("type", group.service_type or "ClusterIP")
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _head_metadata(spec, identity, endpoint),
        "spec": service_spec,
    }


def _head_metadata(spec: ClusterSpec, identity: Identity, endpoint: HeadEndpoint) -> Body:
    given: Body = (spec.head_group_spec.head_service or {}).get("metadata", {})
    own = identity.pod_labels(labels.HEAD, labels.HEAD_GROUP)
    del own[labels.GROUP], own[labels.IS_RAY_NODE]
    own[labels.APP_NAME] = endpoint.selector.get(labels.APP_NAME, labels.APP_NAME_VALUE)
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
