"""A RayCluster, its pods and a cache around them, all made of plain values."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import yaml

from controller.apimachinery.ownership import index_by_owner
from controller.kube.objects import KubeObject, ObjectMeta, OwnerReference, Pod
from controller.kube.resources import PODS, ROUTES
from controller.ray.api import RAYCLUSTERS, RayCluster
from controller.ray.cluster import RayClusterKind
from controller.ray.head.watches import HEAD_INDEX, head_keys
from controller.runtime.reconcile.kind import InstalledSchema, Unreadable

if TYPE_CHECKING:
    from controller.kube.resources import Resource
    from controller.runtime.reconcile.kind import CreateError, LogText
    from controller.runtime.reconcile.plan import LiveList, LogTail, Plan

NOW = datetime(2026, 8, 20, 10, 0, tzinfo=UTC)
EXAMPLES = Path(__file__).parents[3] / "examples"
UID = "uid-of-example"


def manifest(name: str = "raycluster.yaml") -> dict[str, Any]:
    """The RayCluster of one of our own examples, under the name `example`."""
    raw = next(iter(yaml.safe_load_all((EXAMPLES / name).read_text())))
    raw["metadata"]["name"] = "example"
    return raw


def cluster(raw: dict[str, Any] | None = None, **spec: Any) -> RayCluster:
    """A stored RayCluster: the example, with these fields of its spec replaced."""
    stored = raw or manifest()
    stored["spec"] |= spec
    metadata = {"namespace": "default", "uid": UID, "generation": 1, "resourceVersion": "1"}
    stored["metadata"] = metadata | stored["metadata"]
    return msgspec.convert(stored, RayCluster)


def with_status(obj: RayCluster, status: dict[str, Any]) -> RayCluster:
    """The same object after `status` was merge-patched into it."""
    merged = {**obj.status, **status}
    if isinstance(status.get("head"), dict):
        merged["head"] = {k: v for k, v in status["head"].items() if v is not None}
    merged = {key: value for key, value in merged.items() if value is not None}
    return msgspec.structs.replace(obj, status=merged)


def with_meta(obj: Any, **changes: Any) -> Any:
    """The same object with changed metadata."""
    return msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, **changes))


def owner(uid: str = UID, name: str = "example") -> OwnerReference:
    return OwnerReference(
        api_version="ray.io/v1", kind="RayCluster", name=name, uid=uid, controller=True
    )


def pod(
    name: str,
    group: str = "workers",
    *,
    phase: str = "Running",
    ready: bool | None = None,
    node: str = "node-1",
    created: str = "2026-08-20T09:00:00Z",
    terminating: bool = False,
    ends: str = "2026-08-20T09:59:00Z",
    owner_uid: str | None = UID,
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    restart_policy: str = "Always",
    containers: list[dict[str, Any]] | None = None,
    conditions: list[dict[str, Any]] | None = None,
    **status: Any,
) -> Pod:
    """A Ray pod; `ready` None means as ready as its phase suggests."""
    is_ready = phase == "Running" if ready is None else ready
    head = group == "headgroup"
    body: dict[str, Any] = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-of-{name}",
            "resourceVersion": "5",
            "creationTimestamp": created,
            "deletionTimestamp": ends if terminating else None,
            "annotations": annotations,
            "labels": {
                "ray.io/cluster": "example",
                "ray.io/node-type": "head" if head else "worker",
                "ray.io/group": group,
            }
            | (labels or {}),
        },
        "spec": {
            "nodeName": node,
            "restartPolicy": restart_policy,
            "containers": [{"name": "ray-head" if head else "ray-worker"}],
        },
        "status": {
            "phase": phase,
            "podIP": "10.0.0.7" if node else "",
            "conditions": [{"type": "Ready", "status": str(is_ready)}, *(conditions or [])],
            "containerStatuses": containers or [],
        }
        | status,
    }
    made = msgspec.convert(body, Pod)
    return made if owner_uid is None else with_meta(made, owner_references=(owner(owner_uid),))


def head(name: str = "example-head-aaaaaaaa", **more: Any) -> Pod:
    return pod(name, "headgroup", **more)


def workers(count: int, **more: Any) -> list[Pod]:
    return [pod(f"example-workers-worker-{i:08d}", **more) for i in range(count)]


@dataclass
class FakeReads:
    """Reads over plain lists; everything about the ledger can be set."""

    objects: dict[tuple[str, str], KubeObject] = field(default_factory=dict)
    newest: str = "100"
    unsettled: frozenset[str] = frozenset()
    taken: set[str] = field(default_factory=set)
    absent: set[str] = field(default_factory=set)
    refused: dict[str, CreateError] = field(default_factory=dict)
    said: tuple[str, ...] = ()
    odd: dict[str, Unreadable] = field(default_factory=dict)
    routes: bool = False
    listed: bool = False
    logs: dict[str, LogText] = field(default_factory=dict)
    begun: dict[str, int] = field(default_factory=dict)
    schemas: dict[Any, InstalledSchema] = field(default_factory=dict)
    clock_jumped_at: datetime | None = None

    def add(self, resource: Resource[Any], *objects: KubeObject) -> FakeReads:
        for obj in objects:
            self.objects[resource.plural, obj.metadata.key] = obj
        return self

    def get(self, resource: Resource[Any], key: str) -> Any:
        return self.objects.get((resource.plural, key))

    def serves(self, resource: Resource[Any]) -> bool:
        return resource is not ROUTES or self.routes

    def by_index(self, resource: Resource[Any], index: str, value: str) -> list[Any]:
        function = {"owner": index_by_owner, HEAD_INDEX: head_keys}[index]
        return [
            obj
            for (plural, _), obj in self.objects.items()
            if plural == resource.plural and value in function(obj)
        ]

    def revision(self, resource: Resource[Any], owner_uid: str) -> str:
        return self.newest

    def pending_scopes(self, owner_uid: str) -> frozenset[str]:
        return self.unsettled

    def has_name_conflict(self, resource: Resource[Any], key: str) -> bool:
        return f"{resource.kind}/{key}" in self.taken

    def name_conflicts(self, resource: Resource[Any], owner_uid: str) -> frozenset[str]:
        prefix = f"{resource.kind}/default/"
        return frozenset(
            each.removeprefix(prefix) for each in self.taken if each.startswith(prefix)
        )

    def looked_up_absent(self, resource: Resource[Any], key: str) -> bool:
        return key in self.absent

    def create_error(self, resource: Resource[Any], key: str) -> CreateError | None:
        return self.refused.get(f"{resource.kind}/{key}")

    def has_listed(self, lookup: LiveList, owner_uid: str) -> bool:
        return self.listed

    def log_tail(self, lookup: LogTail, owner_uid: str) -> LogText | None:
        return self.logs.get(lookup.label_selector)

    def incomplete_replicas(self, owner_uid: str) -> dict[str, int]:
        return self.begun

    def installed_schema(self, resource: Resource[Any]) -> InstalledSchema:
        return self.schemas.get(resource, InstalledSchema())

    def consistency_warnings(self, owner_uid: str) -> tuple[str, ...]:
        return self.said

    def unreadable(self, resource: Resource[Any], namespace: str) -> dict[str, Unreadable]:
        return self.odd if resource is PODS else {}


def reads(obj: RayCluster, *pods: Pod, **more: Any) -> FakeReads:
    return FakeReads(**more).add(RAYCLUSTERS, obj).add(PODS, *pods)


def with_children(kept: FakeReads) -> FakeReads:
    """The same cache with every child of the cluster that it lacks."""
    seen = RayClusterKind().observe("default/example", kept)
    assert seen is not None
    for child in seen.children.absent:
        body = {**child.body, "metadata": {**child.body["metadata"], "namespace": "default"}}
        kept.add(child.resource, msgspec.convert(body, child.resource.view))
    return kept


def plan(kept: FakeReads, kind: RayClusterKind | None = None, *, seconds: float = 0) -> Plan:
    """What the kind would do about the example."""
    kind = kind or RayClusterKind()
    seen = kind.observe("default/example", kept)
    assert seen is not None
    return kind.plan(seen, NOW + timedelta(seconds=seconds))


def writes(made: Plan) -> list[str]:
    """The plan's writes as short texts, stage after stage: `create Pod a`."""
    return [
        f"{type(write).__name__.lower()} {write.target.resource.kind} {write.target.name}"
        for stage in made.stages
        for write in stage
    ]


def unreadable(
    name: str, reason: str, *, owner_uid: str | None = UID, **labels: str
) -> dict[str, Unreadable]:
    """An object of which only the metadata can be decoded, for `odd`."""
    references = () if owner_uid is None else (owner(owner_uid),)
    found = meta(name, owner_references=references, labels=labels)
    return {name: Unreadable(found, reason)}


def meta(name: str, **more: Any) -> ObjectMeta:
    return ObjectMeta(name=name, namespace="default", **more)
