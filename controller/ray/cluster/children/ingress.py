"""The Ingress of the dashboard, or its Route on OpenShift."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from controller.ray.api import labels
from controller.ray.api.names import checked_name, checked_route_name
from controller.ray.children.inheritance import inherited_annotations

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.ray.api.raycluster import ClusterSpec
    from controller.ray.children.child import Body
    from controller.ray.head.endpoint import HeadEndpoint
    from controller.ray.head.identity import Identity


def ingress(
    spec: ClusterSpec, identity: Identity, endpoint: HeadEndpoint, annotations: Mapping[str, str]
) -> Body:
    """Return the Ingress; the cluster's `annotations` give its class and settings."""
    options: Mapping[str, Any] = spec.head_group_spec.ingress_options or {}
    backend = {"name": identity.head_service, "port": {"number": endpoint.dashboard_port}}
    path = {
        "path": options.get("path", "/"),
        "pathType": options.get("pathType", "Prefix"),
        "backend": {"service": backend},
    }
    rule: Body = {"http": {"paths": [path]}}
    if options.get("host"):
        rule["host"] = options["host"]
    ingress_spec: Body = {"rules": [rule]}
    if options.get("tls"):
        ingress_spec["tls"] = copy.deepcopy(options["tls"])
    if annotations.get(labels.INGRESS_CLASS):
        ingress_spec["ingressClassName"] = annotations[labels.INGRESS_CLASS]
    name = checked_name(f"{identity.name}-head-ingress")
    copied = {key: annotations[key] for key in annotations if key != labels.INGRESS_CLASS}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": _metadata(identity, name, copied),
        "spec": ingress_spec,
    }


def route(identity: Identity, endpoint: HeadEndpoint, annotations: Mapping[str, str]) -> Body:
    """Return the Route; the server chooses its host."""
    name = checked_route_name(f"{identity.name}-head-route", identity.namespace)
    return {
        "apiVersion": "route.openshift.io/v1",
        "kind": "Route",
        "metadata": _metadata(identity, name, annotations),
        "spec": {
            "to": {"kind": "Service", "name": identity.head_service, "weight": 100},
            "port": {"targetPort": endpoint.dashboard_port},
            "wildcardPolicy": "None",
        },
    }


def _metadata(identity: Identity, name: str, annotations: Mapping[str, str]) -> Body:
    defaults = identity.pod_labels(labels.HEAD, labels.HEAD_GROUP)
    return {
        "name": name,
        "namespace": identity.namespace,
        "labels": {
            key: defaults[key]
            for key in (labels.CLUSTER, labels.IDENTIFIER, labels.APP_NAME, labels.CREATED_BY)
        },
        "annotations": inherited_annotations(annotations),
        "ownerReferences": [identity.owner],
    }
