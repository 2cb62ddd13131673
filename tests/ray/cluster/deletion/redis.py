"""Clusters with state in Redis, and their cleanup Jobs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec

from controller.apimachinery.conditions import rfc3339
from controller.kube.objects import Job
from controller.ray.api import RayCluster
from tests.ray.cluster.support import NOW, cluster, manifest, owner, with_meta

FINALIZER = "ray.io/gcs-ft-redis-cleanup-finalizer"
JOB = "example-redis-cleanup"
OPTIONS = {
    "redisAddress": "redis:6379",
    "redisPassword": {"valueFrom": {"secretKeyRef": {"name": "redis", "key": "password"}}},
}
ADDRESS = {"name": "RAY_REDIS_ADDRESS", "value": "redis:6379"}


def legacy(*, address: bool = True) -> dict[str, Any]:
    """Fault tolerance as older versions of KubeRay knew it."""
    raw = manifest()
    raw["metadata"]["annotations"] = {"ray.io/ft-enabled": "TRUE"}
    container = raw["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    container["env"] = [ADDRESS] if address else []
    return raw


def invalid() -> dict[str, Any]:
    raw = with_options()
    raw["spec"]["workerGroupSpecs"][0] |= {"minReplicas": 5, "maxReplicas": 1}
    return raw


def unparsable() -> dict[str, Any]:
    raw = with_options()
    raw["spec"]["workerGroupSpecs"] = 5
    return raw


def headless() -> dict[str, Any]:
    raw = with_options()
    raw["spec"]["headGroupSpec"] = {"template": {"spec": {"containers": []}}}
    return raw


def with_options(**options: Any) -> dict[str, Any]:
    raw = manifest()
    raw["spec"]["gcsFaultToleranceOptions"] = OPTIONS | options
    return raw


def embedded() -> dict[str, Any]:
    raw = manifest()
    raw["spec"]["gcsFaultToleranceOptions"] = {"backend": "rocksdb"}
    return raw


def redis_cluster(
    raw: dict[str, Any] | None = None,
    *,
    held: bool = True,
    deleted: float | None = None,
    finalizers: tuple[str, ...] = (),
    timeout: str | None = None,
) -> RayCluster:
    """A stored cluster, deleted so many seconds ago, with our finalizer if `held`."""
    stored = cluster(raw or with_options())
    when = None if deleted is None else rfc3339(NOW - timedelta(seconds=deleted))
    ours = (FINALIZER,) if held else ()
    made = with_meta(stored, deletion_timestamp=when, finalizers=(*finalizers, *ours))
    if timeout is None:
        return made
    annotations = (made.metadata.annotations or {}) | {"ray.io/gcs-ft-deletion-timeout": timeout}
    return with_meta(made, annotations=annotations)


def cleanup_job(
    condition: str = "", *, terminating: bool = False, owner_uid: str | None = "uid-of-example"
) -> Job:
    """The Job, running unless it has a condition."""
    conditions = [{"type": condition, "status": "True"}] if condition else []
    body = {
        "metadata": {
            "name": JOB,
            "namespace": "default",
            "uid": "uid-of-job",
            "resourceVersion": "7",
            "deletionTimestamp": rfc3339(NOW) if terminating else None,
            "labels": {"ray.io/cluster": "example", "ray.io/node-type": "redis-cleanup"},
        },
        "status": {"active": 0 if condition else 1, "conditions": conditions},
    }
    job = msgspec.convert(body, Job)
    return job if owner_uid is None else with_meta(job, owner_references=(owner(owner_uid),))
