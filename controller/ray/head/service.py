"""The head service and its ports."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.ownership import owner_reference
from controller.ray.api import labels
from controller.ray.api.names import checked_label
from controller.ray.head.endpoint import Identity, head_endpoint

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controller.kube.objects import ObjectMeta, Pod
    from controller.kube.resources import Resource
    from controller.ray.api.raycluster import ClusterSpec, RayCluster
    from controller.ray.head.endpoint import HeadEndpoint


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


# `<owner>-head-svc`, the service for the head of whichever cluster a RayJob or RayService uses.
#
# It keeps its name over all attempts and upgrades; only the cluster that it selects changes.

_EXCLUSIVE_FIELDS: Final = ("clusterIP", "clusterIPs", "loadBalancerIP", "healthCheckNodePort")
"""Fields of the cluster's head service that a second service must not repeat."""


def stable_head_service_name(owner: ObjectMeta) -> str:
    """Return the name of the stable service for the head."""
    return f"{owner.name}-head-svc"


def stable_head_service(
    kind: Resource[Any],
    owner: ObjectMeta,
    cluster: RayCluster,
    spec: ClusterSpec,
    heads: Iterable[Pod],
    *,
    domain: str,
    cluster_ip: bool,
) -> Body:
    """Return the service that leads to the head of `cluster`.

    Args:
        kind: kind of the owner, RayJob or RayService.
        owner: metadata of the owner.
        cluster: the cluster that the owner uses now.
        spec: the specification of `cluster`.
        heads: its heads.
        domain: DNS domain of the Kubernetes cluster.
        cluster_ip: whether a generated service gets a cluster IP.
    """
    identity = Identity.of(cluster, spec, domain=domain)
    endpoint = head_endpoint(spec, identity, heads)
    body = head_service(spec, identity, endpoint, cluster_ip=cluster_ip)
    own = {
        labels.NODE_TYPE: labels.HEAD,
        labels.IDENTIFIER: checked_label(f"{owner.name}-{labels.HEAD}"),
    }
    metadata = stable_service_metadata(kind, owner, stable_head_service_name(owner), own)
    if annotations := body["metadata"].get("annotations"):
        metadata["annotations"] = annotations
    return {**body, "metadata": metadata, "spec": _without_exclusive_fields(body["spec"])}


def stable_service_metadata(
    kind: Resource[Any], owner: ObjectMeta, name: str, own_labels: dict[str, str]
) -> Body:
    """Return the metadata of a service of a RayJob or RayService, not of a cluster."""
    origin = {labels.ORIGIN_NAME: owner.name, labels.ORIGIN_KIND: kind.kind}
    return {
        "name": name,
        "namespace": owner.namespace,
        "labels": own_labels | origin,
        "ownerReferences": [owner_reference(kind, owner)],
    }


def _without_exclusive_fields(service_spec: Body) -> Body:
    """Return the specification without fields that only one service can have."""
    kept = copy.deepcopy(service_spec)
    headless = kept.get("clusterIP") == "None"
    for name in _EXCLUSIVE_FIELDS:
        kept.pop(name, None)
    for port in kept["ports"]:
        port.pop("nodePort", None)
    return kept | ({"clusterIP": "None"} if headless else {})
