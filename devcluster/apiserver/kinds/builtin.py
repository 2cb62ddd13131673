"""The table of built-in kinds."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any, Final, cast

from devcluster.apiserver.builtin_types import blank_object
from devcluster.apiserver.columns import AGE, BUILTIN_COLUMNS, NAME
from devcluster.apiserver.crd import CrdStrategy
from devcluster.apiserver.kinds.pods import PodStrategy
from devcluster.apiserver.kinds.services import Allocations, ServiceStrategy
from devcluster.apiserver.kinds.stored import (
    ClaimStrategy,
    ConfigMapStrategy,
    EndpointSliceStrategy,
    NamespaceStrategy,
    NetworkPolicyStrategy,
    NodeStrategy,
    SecretStrategy,
    from_stored_event,
    to_stored_event,
)
from devcluster.apiserver.kinds.workloads import (
    DEPLOYMENTS,
    REPLICA_SETS,
    STATEFUL_SETS,
    JobStrategy,
)
from devcluster.apiserver.objects import Json, child, is_path_segment
from devcluster.apiserver.resources import (
    ALL_VERBS,
    METADATA_FIELDS,
    ApiResource,
    Strategy,
)
from devcluster.apiserver.sessions import CONNECTIONS
from devcluster.apiserver.store import ObjectStore


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


def _kind(
    group: str, plural: str, kind: str, strategy: Strategy, short: str = "", **rest: Any
) -> ApiResource:
    table = rest.pop("table", f"{plural}.{group}" if group else plural)
    return ApiResource(
        group=group,
        version="v1",
        plural=plural,
        kind=kind,
        table=table,
        blank=blank_object(kind),
        columns=BUILTIN_COLUMNS.get(table, (NAME, AGE)),
        singular=kind.lower(),
        short_names=tuple(short.split()),
        subresources=rest.pop("more", frozenset()) | (_STATUS if strategy.has_status else set()),
        strategy=strategy,
        **rest,
    )


def builtin_resources(
    store: ObjectStore, rng: random.Random, wall: Callable[[], datetime]
) -> list[ApiResource]:
    """Return all built-in resources of one server."""
    return [*_core_resources(store, rng), *_group_resources(wall)]


_CLUSTER: Final[Any] = {"namespaced": False}
_ALL: Final[Any] = {"categories": ("all",)}


def _core_resources(store: ObjectStore, rng: random.Random) -> list[ApiResource]:
    kind = partial(_kind, "")
    pods = frozenset({"binding", "eviction", "log", "proxy", *CONNECTIONS})
    namespaces: Any = {
        "verbs": tuple(verb for verb in ALL_VERBS if verb != "deletecollection"),
        "more": frozenset({"finalize"}),
        "fields": selectable("status.phase", "name"),
    }
    services: Any = {
        "more": frozenset({"proxy"}),
        "fields": selectable("spec.clusterIP", "spec.type"),
    }
    by_schedule = selectable("spec.unschedulable")
    returned = Strategy(has_status=True, returns_deleted=True)
    account = Strategy(returns_deleted=True)
    service = ServiceStrategy(Allocations(store, rng))
    return [
        kind("configmaps", "ConfigMap", ConfigMapStrategy(), "cm"),
        kind("endpoints", "Endpoints", _put(), "ep"),
        kind("events", "Event", _put(), "ev", fields=_EVENT_FIELDS),
        kind("namespaces", "Namespace", NamespaceStrategy(), "ns", **_CLUSTER, **namespaces),
        kind("nodes", "Node", NodeStrategy(), "no", **_CLUSTER, fields=by_schedule),
        kind("persistentvolumeclaims", "PersistentVolumeClaim", ClaimStrategy(), "pvc"),
        kind("persistentvolumes", "PersistentVolume", returned, "pv", **_CLUSTER),
        kind("pods", "Pod", PodStrategy(store), "po", **_ALL, more=pods, fields=_POD_FIELDS),
        kind("resourcequotas", "ResourceQuota", returned, "quota"),
        kind("secrets", "Secret", SecretStrategy(), fields=selectable("type")),
        kind("serviceaccounts", "ServiceAccount", account, "sa", more=frozenset({"token"})),
        kind("services", "Service", service, "svc", **_ALL, **services),
    ]


def _put(**traits: Any) -> Strategy:
    """Return the strategy of a kind that a PUT may create."""
    return Strategy(creates_on_update=True, **traits)


def _group_resources(wall: Callable[[], datetime]) -> list[ApiResource]:
    apps, network = partial(_kind, "apps"), partial(_kind, "networking.k8s.io")
    rbac = partial(_kind, "rbac.authorization.k8s.io")
    definitions: Any = {"categories": ("api-extensions",), **_CLUSTER}
    events: Any = {
        "table": "events",
        "to_stored": to_stored_event,
        "from_stored": from_stored_event,
        "fields": selectable() | _RENAMED,
    }
    counted = Strategy(counts_generations=True)
    reported = Strategy(counts_generations=True, has_status=True)
    slices = EndpointSliceStrategy()
    role = _put(name_rule=is_path_segment)
    return [
        apps("controllerrevisions", "ControllerRevision", Strategy()),
        apps("deployments", "Deployment", DEPLOYMENTS, "deploy", **_ALL),
        apps("replicasets", "ReplicaSet", REPLICA_SETS, "rs", **_ALL),
        apps("statefulsets", "StatefulSet", STATEFUL_SETS, "sts", **_ALL),
        _kind("batch", "jobs", "Job", JobStrategy(), fields=_JOB_FIELDS, **_ALL),
        _kind("coordination.k8s.io", "leases", "Lease", _put()),
        _kind("discovery.k8s.io", "endpointslices", "EndpointSlice", slices),
        _kind("events.k8s.io", "events", "Event", _put(), "ev", **events),
        network("ingressclasses", "IngressClass", counted, **_CLUSTER),
        network("ingresses", "Ingress", reported, "ing"),
        network("networkpolicies", "NetworkPolicy", NetworkPolicyStrategy(), "netpol"),
        _kind("policy", "poddisruptionbudgets", "PodDisruptionBudget", reported, "pdb"),
        rbac("clusterrolebindings", "ClusterRoleBinding", role, **_CLUSTER),
        rbac("clusterroles", "ClusterRole", role, **_CLUSTER),
        rbac("rolebindings", "RoleBinding", role),
        rbac("roles", "Role", role),
        _kind("scheduling.k8s.io", "priorityclasses", "PriorityClass", counted, "pc", **_CLUSTER),
        _kind("storage.k8s.io", "storageclasses", "StorageClass", Strategy(), "sc", **_CLUSTER),
        _kind(
            "apiextensions.k8s.io",
            "customresourcedefinitions",
            "CustomResourceDefinition",
            CrdStrategy(wall),
            "crd crds",
            **definitions,
        ),
    ]
