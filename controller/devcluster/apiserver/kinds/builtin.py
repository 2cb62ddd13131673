"""The table of built-in kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from controller.devcluster.apiserver.crd import CrdStrategy
from controller.devcluster.apiserver.kinds.allocation import Allocations
from controller.devcluster.apiserver.kinds.events import from_stored_event, to_stored_event
from controller.devcluster.apiserver.kinds.namespaces import NamespaceStrategy
from controller.devcluster.apiserver.kinds.pods import PodStrategy
from controller.devcluster.apiserver.kinds.services import ServiceStrategy
from controller.devcluster.apiserver.kinds.workloads import JobStrategy
from controller.devcluster.apiserver.meta import is_path_segment
from controller.devcluster.apiserver.resource import EVERYWHERE, ApiResource
from controller.devcluster.apiserver.strategy import Strategy

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from datetime import datetime

    from controller.devcluster.apiserver.jsondata import Json
    from controller.devcluster.apiserver.store import Store


class Plain(Strategy):
    """Stored as it comes: no status, no generation."""


class Echoed(Plain):
    """Plain, and DELETE answers with the object."""

    echoes_deleted = True


class WithStatus(Strategy):
    """A status subresource, no generation."""

    has_status = True


class EchoedWithStatus(WithStatus):
    """A status subresource, and DELETE answers with the object."""

    echoes_deleted = True


class Generation(Strategy):
    """Generation, no status subresource."""

    counts_generations = True


class Workload(WithStatus):
    """Generation and a status subresource."""

    counts_generations = True


class Rbac(Plain):
    """RBAC objects may have names that are no DNS names."""

    name_rule = staticmethod(is_path_segment)


class NodeStrategy(EchoedWithStatus):
    """The kubelet creates its node with a status."""

    echoes_deleted = False

    def prepare_create(self, object_: Json) -> None:
        """Keep the status."""


def path_field(path: str) -> Callable[[Json], str]:
    """Reads a field by its dotted path for field selectors; missing reads as empty."""
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
    """Selectable fields besides name and namespace."""
    return dict(EVERYWHERE) | {path: path_field(path) for path in paths}


_BLANK_TEMPLATE: Json = {"template": {"metadata": {}, "spec": {"containers": None}}}
_BLANK: dict[str, Json] = {
    "pods": {"spec": {"containers": None}, "status": {}},
    "services": {"spec": {}, "status": {"loadBalancer": {}}},
    "namespaces": {"spec": {}, "status": {}},
    "jobs.batch": {"spec": _BLANK_TEMPLATE, "status": {}},
    "endpointslices.discovery.k8s.io": {"addressType": "", "endpoints": None, "ports": None},
    "events": {
        "involvedObject": {},
        "source": {},
        "firstTimestamp": None,
        "lastTimestamp": None,
        "eventTime": None,
        "reportingComponent": "",
        "reportingInstance": "",
    },
}
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
_RENAMED = {
    new: _EVENT_FIELDS[old]
    for new, old in {
        "regarding.kind": "involvedObject.kind",
        "regarding.namespace": "involvedObject.namespace",
        "regarding.name": "involvedObject.name",
        "regarding.uid": "involvedObject.uid",
        "regarding.apiVersion": "involvedObject.apiVersion",
    }.items()
}


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
        blank=_BLANK.get(table, {}),
        singular=rest.pop("singular", kind.lower()),
        subresources=_STATUS | rest.pop("more", frozenset())
        if strategy.has_status
        else rest.pop("more", frozenset()),
        strategy=strategy,
        **rest,
    )


def builtin_resources(
    store: Store, rng: random.Random, wall: Callable[[], datetime]
) -> list[ApiResource]:
    """All built-in resources of one server."""
    return [*_core_resources(store, rng), *_group_resources(), _definitions(wall)]


def _core_resources(store: Store, rng: random.Random) -> list[ApiResource]:
    pods = frozenset({"binding", "log", "proxy"})
    no_collection = ("create", "delete", "get", "list", "patch", "update", "watch")
    return [
        _core("configmaps", "ConfigMap", Plain(), short_names=("cm",)),
        _core("endpoints", "Endpoints", Plain(), short_names=("ep",)),
        _core("events", "Event", Plain(), short_names=("ev",), fields=_EVENT_FIELDS),
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
            "persistentvolumeclaims",
            "PersistentVolumeClaim",
            EchoedWithStatus(),
            short_names=("pvc",),
        ),
        _core(
            "persistentvolumes",
            "PersistentVolume",
            EchoedWithStatus(),
            short_names=("pv",),
            namespaced=False,
        ),
        _core(
            "pods",
            "Pod",
            PodStrategy(),
            short_names=("po",),
            categories=("all",),
            more=pods,
            fields=_POD_FIELDS,
        ),
        _core("podtemplates", "PodTemplate", Echoed()),
        _core("resourcequotas", "ResourceQuota", EchoedWithStatus(), short_names=("quota",)),
        _core("secrets", "Secret", Plain(), fields=selectable("type")),
        _core("serviceaccounts", "ServiceAccount", Echoed(), short_names=("sa",)),
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
        _kind("apps", "daemonsets", "DaemonSet", Workload(), short_names=("ds",), **everything),
        _kind(
            "apps", "deployments", "Deployment", Workload(), short_names=("deploy",), **everything
        ),
        _kind("apps", "replicasets", "ReplicaSet", Workload(), short_names=("rs",), **everything),
        _kind(
            "apps", "statefulsets", "StatefulSet", Workload(), short_names=("sts",), **everything
        ),
        _kind("batch", "cronjobs", "CronJob", Workload(), short_names=("cj",), **everything),
        _kind(
            "batch",
            "jobs",
            "Job",
            JobStrategy(),
            fields=selectable("status.successful"),
            **everything,
        ),
        _kind("coordination.k8s.io", "leases", "Lease", Plain()),
        _kind("discovery.k8s.io", "endpointslices", "EndpointSlice", Generation()),
        _kind(
            "events.k8s.io",
            "events",
            "Event",
            Plain(),
            table="events",
            short_names=("ev",),
            to_stored=to_stored_event,
            from_stored=from_stored_event,
            fields=_EVENT_FIELDS | _RENAMED,
        ),
        _kind(
            "networking.k8s.io", "ingressclasses", "IngressClass", Generation(), namespaced=False
        ),
        _kind("networking.k8s.io", "ingresses", "Ingress", Workload(), short_names=("ing",)),
        _kind(
            "networking.k8s.io",
            "networkpolicies",
            "NetworkPolicy",
            Generation(),
            short_names=("netpol",),
        ),
        _kind(
            "policy",
            "poddisruptionbudgets",
            "PodDisruptionBudget",
            Workload(),
            short_names=("pdb",),
        ),
        _kind(rbac, "clusterrolebindings", "ClusterRoleBinding", Rbac(), namespaced=False),
        _kind(rbac, "clusterroles", "ClusterRole", Rbac(), namespaced=False),
        _kind(rbac, "rolebindings", "RoleBinding", Rbac()),
        _kind(rbac, "roles", "Role", Rbac()),
        _kind(
            "scheduling.k8s.io",
            "priorityclasses",
            "PriorityClass",
            Generation(),
            short_names=("pc",),
            namespaced=False,
        ),
        _kind(
            "storage.k8s.io",
            "storageclasses",
            "StorageClass",
            Plain(),
            short_names=("sc",),
            namespaced=False,
        ),
    ]
