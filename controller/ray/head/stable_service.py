"""`<owner>-head-svc`, the service for the head of whichever cluster a RayJob or RayService uses.

It keeps its name over all attempts and upgrades; only the cluster that it selects changes.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.ownership import owner_reference
from controller.ray.api import labels
from controller.ray.api.names import checked_label
from controller.ray.head.endpoint import head_endpoint
from controller.ray.head.identity import Identity
from controller.ray.head.service import head_service

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controller.kube.objects import ObjectMeta, Pod
    from controller.kube.resources import Resource
    from controller.ray.api.raycluster import ClusterSpec, RayCluster

Body = dict[str, Any]

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
