"""The table of built-in kinds."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime
from typing import Any, cast

from controller.devcluster.apiserver.builtin_columns import BUILTIN_COLUMNS
from controller.devcluster.apiserver.builtin_types import blank_object
from controller.devcluster.apiserver.columns import DEFAULT_COLUMNS
from controller.devcluster.apiserver.crd import CrdStrategy
from controller.devcluster.apiserver.kinds.pods import PodStrategy
from controller.devcluster.apiserver.kinds.services import Allocations, ServiceStrategy
from controller.devcluster.apiserver.kinds.stored import (
    ClaimStrategy,
    ConfigMapStrategy,
    ControllerRevisionStrategy,
    CreatedOnUpdate,
    EndpointSliceStrategy,
    NamespaceStrategy,
    NetworkPolicyStrategy,
    NodeStrategy,
    RbacObjects,
    ReturnsDeleted,
    ReturnsDeletedWithStatus,
    SecretStrategy,
    WithGeneration,
    WithGenerationAndStatus,
    from_stored_event,
    to_stored_event,
)
from controller.devcluster.apiserver.kinds.workloads import (
    DEPLOYMENTS,
    REPLICA_SETS,
    STATEFUL_SETS,
    JobStrategy,
)
from controller.devcluster.apiserver.objects import Json, child
from controller.devcluster.apiserver.resources import METADATA_FIELDS, ApiResource, Strategy
from controller.devcluster.apiserver.sessions import CONNECTIONS
from controller.devcluster.apiserver.store import ObjectStore


def path_field(path: str) -> Callable[[Json], str]:
    """Return a reader of a dotted path for field selectors; a missing field reads as empty."""
    parts = path.split(".")

    def read(object_: Json) -> str:
        value: Any = object_
        for part in parts:
            value = cast("Json", value).get(part) if isinstance(value, dict) else None
        if isinstance(value, bool):
            return str(value).lower()
        return "" if value is None else str(value)

    return read


def selectable(*paths: str) -> dict[str, Callable[[Json], str]]:
    """Return the selectable fields besides name and namespace."""
    return dict(METADATA_FIELDS) | {path: path_field(path) for path in paths}


def _successes(job: Json) -> str:
    """Return the field `succeeded`, by which `status.successful` selects upstream."""
    return str(child(job, "status").get("succeeded", 0))


_STATUS = frozenset({"status"})
_POD_FIELDS = selectable(
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
)
_EVENT_FIELDS = selectable(
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
)
_JOB_FIELDS = selectable() | {"status.successful": _successes}
_RENAMED = {
    new: _EVENT_FIELDS[old]
    for new, old in {
        "regarding.kind": "involvedObject.kind",
        "regarding.namespace": "involvedObject.namespace",
        "regarding.name": "involvedObject.name",
        "regarding.uid": "involvedObject.uid",
        "regarding.apiVersion": "involvedObject.apiVersion",
        "reason": "reason",
        "reportingController": "reportingComponent",
        "type": "type",
    }.items()
}
"""The fields of an Event of events.k8s.io, by their names there."""


def _core(plural: str, kind: str, strategy: Strategy, **rest: Any) -> ApiResource:
    return _kind("", plural, kind, strategy, **rest)


def _kind(group: str, plural: str, kind: str, strategy: Strategy, **rest: Any) -> ApiResource:
    table = rest.pop("table", f"{plural}.{group}" if group else plural)
    return ApiResource(
        group=group,
        version="v1",
        plural=plural,
        kind=kind,
        table=table,
        blank=blank_object(kind),
        columns=BUILTIN_COLUMNS.get(table, DEFAULT_COLUMNS),
        singular=rest.pop("singular", kind.lower()),
        subresources=rest.pop("more", frozenset()) | (_STATUS if strategy.has_status else set()),
        strategy=strategy,
        **rest,
    )


def builtin_resources(
    store: ObjectStore, rng: random.Random, wall: Callable[[], datetime]
) -> list[ApiResource]:
    """Return all built-in resources of one server."""
    return [*_core_resources(store, rng), *_group_resources(), _definitions(wall)]


def _core_resources(store: ObjectStore, rng: random.Random) -> list[ApiResource]:
    pods = frozenset({"binding", "eviction", "log", "proxy", *CONNECTIONS})
    no_collection = ("create", "delete", "get", "list", "patch", "update", "watch")
    return [
        _core("configmaps", "ConfigMap", ConfigMapStrategy(), short_names=("cm",)),
        _core("endpoints", "Endpoints", CreatedOnUpdate(), short_names=("ep",)),
        _core("events", "Event", CreatedOnUpdate(), short_names=("ev",), fields=_EVENT_FIELDS),
        _core(
            "namespaces",
            "Namespace",
            NamespaceStrategy(),
            short_names=("ns",),
            namespaced=False,
            verbs=no_collection,
            more=frozenset({"finalize"}),
            fields=selectable("status.phase", "name"),
        ),
        _core(
            "nodes",
            "Node",
            NodeStrategy(),
            short_names=("no",),
            namespaced=False,
            fields=selectable("spec.unschedulable"),
        ),
        _core(
            "persistentvolumeclaims", "PersistentVolumeClaim", ClaimStrategy(), short_names=("pvc",)
        ),
        _core(
            "persistentvolumes",
            "PersistentVolume",
            ReturnsDeletedWithStatus(),
            short_names=("pv",),
            namespaced=False,
        ),
        _core(
            "pods",
            "Pod",
            PodStrategy(store),
            short_names=("po",),
            categories=("all",),
            more=pods,
            fields=_POD_FIELDS,
        ),
        _core(
            "resourcequotas", "ResourceQuota", ReturnsDeletedWithStatus(), short_names=("quota",)
        ),
        _core("secrets", "Secret", SecretStrategy(), fields=selectable("type")),
        _core(
            "serviceaccounts",
            "ServiceAccount",
            ReturnsDeleted(),
            short_names=("sa",),
            more=frozenset({"token"}),
        ),
        _core(
            "services",
            "Service",
            ServiceStrategy(Allocations(store, rng)),
            short_names=("svc",),
            categories=("all",),
            more=frozenset({"proxy"}),
            fields=selectable("spec.clusterIP", "spec.type"),
        ),
    ]


def _definitions(wall: Callable[[], datetime]) -> ApiResource:
    return _kind(
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        CrdStrategy(wall),
        short_names=("crd", "crds"),
        categories=("api-extensions",),
        namespaced=False,
    )


def _group_resources() -> list[ApiResource]:
    everything = {"categories": ("all",)}
    rbac = "rbac.authorization.k8s.io"
    return [
        _kind("apps", "controllerrevisions", "ControllerRevision", ControllerRevisionStrategy()),
        _kind(
            "apps", "deployments", "Deployment", DEPLOYMENTS, short_names=("deploy",), **everything
        ),
        _kind("apps", "replicasets", "ReplicaSet", REPLICA_SETS, short_names=("rs",), **everything),
        _kind(
            "apps", "statefulsets", "StatefulSet", STATEFUL_SETS, short_names=("sts",), **everything
        ),
        _kind("batch", "jobs", "Job", JobStrategy(), fields=_JOB_FIELDS, **everything),
        _kind("coordination.k8s.io", "leases", "Lease", CreatedOnUpdate()),
        _kind("discovery.k8s.io", "endpointslices", "EndpointSlice", EndpointSliceStrategy()),
        _kind(
            "events.k8s.io",
            "events",
            "Event",
            CreatedOnUpdate(),
            table="events",
            short_names=("ev",),
            to_stored=to_stored_event,
            from_stored=from_stored_event,
            fields=selectable() | _RENAMED,
        ),
        _kind(
            "networking.k8s.io",
            "ingressclasses",
            "IngressClass",
            WithGeneration(),
            namespaced=False,
        ),
        _kind(
            "networking.k8s.io",
            "ingresses",
            "Ingress",
            WithGenerationAndStatus(),
            short_names=("ing",),
        ),
        _kind(
            "networking.k8s.io",
            "networkpolicies",
            "NetworkPolicy",
            NetworkPolicyStrategy(),
            short_names=("netpol",),
        ),
        _kind(
            "policy",
            "poddisruptionbudgets",
            "PodDisruptionBudget",
            WithGenerationAndStatus(),
            short_names=("pdb",),
        ),
        _kind(rbac, "clusterrolebindings", "ClusterRoleBinding", RbacObjects(), namespaced=False),
        _kind(rbac, "clusterroles", "ClusterRole", RbacObjects(), namespaced=False),
        _kind(rbac, "rolebindings", "RoleBinding", RbacObjects()),
        _kind(rbac, "roles", "Role", RbacObjects()),
        _kind(
            "scheduling.k8s.io",
            "priorityclasses",
            "PriorityClass",
            WithGeneration(),
            short_names=("pc",),
            namespaced=False,
        ),
        _kind(
            "storage.k8s.io",
            "storageclasses",
            "StorageClass",
            Strategy(),
            short_names=("sc",),
            namespaced=False,
        ),
    ]
