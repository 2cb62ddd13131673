"""The services of a RayCluster for multi-host workers and for Ray Serve."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.ray.api import labels

if TYPE_CHECKING:
    from controller.kube.objects import ObjectMeta
    from controller.ray.api.raycluster import ClusterSpec
    from controller.ray.children.child import Body
    from controller.ray.head.endpoint import HeadEndpoint
    from controller.ray.head.identity import Identity


def headless_service_name(identity: Identity) -> str:
    """Return the name of the service of multi-host workers."""
    return f"{identity.name}-headless"


def needs_headless_service(spec: ClusterSpec) -> bool:
    """Return whether a group has replicas of several hosts."""
    return any(group.hosts > 1 for group in spec.worker_group_specs)


def headless_service(identity: Identity) -> Body:
    """Return the service that gives workers DNS names."""
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
    """Return the name of the service for Ray Serve."""
    return f"{identity.name}-serve-svc"


def is_serve_service(identity: Identity, meta: ObjectMeta) -> bool:
    """Return whether the cluster created it; a RayService's may have the same name and owner."""
    is_ours = (meta.labels or {}).get(labels.ORIGIN_KIND) == "RayCluster"
    return is_ours and meta.name == serve_service_name(identity)


def serve_service(spec: ClusterSpec, identity: Identity, endpoint: HeadEndpoint) -> Body:
    """Return the service for Ray Serve of a cluster without a RayService."""
    ports = sorted(endpoint.serve_ports.items())
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
