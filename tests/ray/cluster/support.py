"""A RayCluster, its pods and a cache around them, all made of plain values."""

from __future__ import annotations

from copy import deepcopy
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import yaml
from msgspec.structs import replace

from controller.kube.objects import ObjectMeta, OwnerReference, Pod
from controller.kube.resources import PODS, Resource
from controller.ray.api import RAYCLUSTERS, RayCluster
from controller.ray.cluster import RayClusterKind
from controller.ray.cluster.observation import ClusterObservation, StoredStatus
from controller.runtime.kind import Unreadable
from controller.runtime.plan import NOTHING, Plan
from controller.testing.reads import FakeReads

NOW = datetime(2026, 8, 20, 10, 0, tzinfo=UTC)
EXAMPLES = Path(__file__).parents[3] / "examples"
UID = "uid-of-example"


def manifest(name: str = "raycluster.yaml") -> dict[str, Any]:
    """The RayCluster of one of our own examples, under the name `example`."""
    raw = deepcopy(_example(name))
    raw["metadata"]["name"] = "example"
    return raw


@cache
def _example(name: str) -> dict[str, Any]:
    text = (EXAMPLES / name).read_text()
    return next(iter(yaml.load_all(text, Loader=yaml.CSafeLoader)))


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


def seen_with(seen: ClusterObservation, status: dict[str, Any]) -> ClusterObservation:
    """The same observation after `status` was merge-patched into its object."""
    obj = with_status(seen.cluster, status)
    return replace(seen, cluster=obj, stored=StoredStatus.of(obj))


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


def cache(**more: Any) -> FakeReads:
    """What RayClusters watch, with nothing in it."""
    return FakeReads(RayClusterKind(), **more)


def reads(obj: RayCluster, *pods: Pod, **more: Any) -> FakeReads:
    return cache(**more).add(RAYCLUSTERS, obj).add(PODS, *pods)


def with_children(kept: FakeReads, kind: RayClusterKind | None = None) -> FakeReads:
    """The same cache with every child of the cluster that it lacks."""
    seen = (kind or RayClusterKind()).observe("default/example", kept)
    absent = seen.children.absent if isinstance(seen, ClusterObservation) else ()
    for child in absent:
        body = {**child.body, "metadata": {**child.body["metadata"], "namespace": "default"}}
        kept.add(child.resource, msgspec.convert(body, child.resource.view))
    return kept


def plan(kept: FakeReads, kind: RayClusterKind | None = None, *, seconds: float = 0) -> Plan:
    """What the kind would do about the example."""
    kind = kind or RayClusterKind()
    seen = kind.observe("default/example", kept)
    assert seen is not None
    return kind.plan(seen, NOW + timedelta(seconds=seconds))


def does_nothing(made: Plan) -> bool:
    """Whether it is an empty plan, whatever the process remembers of it."""
    return replace(made, memory=None) == NOTHING


def writes(made: Plan) -> list[str]:
    """The plan's writes as short texts, stage after stage: `create Pod a`."""
    return [
        f"{type(write).__name__.lower()} {write.target.resource.kind} {write.target.name}"
        for stage in made.stages
        for write in stage
    ]


def unreadable(
    name: str,
    reason: str,
    *,
    owner_uid: str | None = UID,
    resource: Resource[Any] = PODS,
    **labels: str,
) -> dict[Resource[Any], dict[str, Unreadable]]:
    """An object of which only the metadata can be decoded, for `odd`."""
    references = () if owner_uid is None else (owner(owner_uid),)
    found = meta(name, owner_references=references, labels=labels)
    return {resource: {name: Unreadable(found, reason)}}


def meta(name: str, **more: Any) -> ObjectMeta:
    return ObjectMeta(name=name, namespace="default", **more)
