"""The columns: how each kind is created, and when it is well. A new kind adds one declaration."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from controller.ray.api import RAYCLUSTERS, RAYJOBS, RAYSERVICES
from controller.ray.api.raycronjob import RAYCRONJOBS
from tests.integration.harness import example_cluster
from tests.integration.rays import job_manifest
from tests.integration.rayservices import service_manifest

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from controller.kube.resources import Resource
    from tests.neighbours.neighbourhood import Objects

Manifest = dict[str, Any]


@dataclass(frozen=True)
class Column:
    """One kind.

    Attributes:
        resource: of the objects that a tenant creates.
        manifest: an object of this name, created at this time, that becomes well by itself.
        creates: the resource of the objects that the operator creates for it.
        cluster_spec: the part of a manifest that describes a cluster.
        is_well: whether this object is ready, given all `ray.io` objects of its namespace.
        has_ended: whether it is over without having been well, so that its user creates another.
        speaks: kinds whose conditions and events may name the cause.
        has_own_reasons: whether the reason of `Ready` tells the cause; else it is one of KubeRay's,
            and the message alone tells.
        phase: second of the minute in which it is created.
    """

    resource: Resource[Any]
    creates: str
    manifest: Callable[[str, datetime], Manifest]
    cluster_spec: Callable[[Manifest], Manifest]
    is_well: Callable[[Manifest, Objects], bool]
    has_ended: Callable[[Manifest], bool] = lambda _object: False
    speaks: frozenset[str] = frozenset()
    has_own_reasons: bool = True
    phase: float | None = None

    def __str__(self) -> str:
        return self.resource.kind

    async def wait_for_phase(self) -> None:
        """Sleep until the second of the minute in which the object is to be created."""
        if self.phase is not None:
            now = asyncio.get_running_loop().time()
            await asyncio.sleep((self.phase - now) % 60)


def _cluster_is_well(cluster: Manifest, _objects: Objects) -> bool:
    return cluster.get("status", {}).get("state") == "ready"


def _job_is_well(job: Manifest, _objects: Objects) -> bool:
    status = job.get("status", {})
    return (status.get("jobDeploymentStatus"), status.get("jobStatus")) == ("Complete", "SUCCEEDED")


def _job_has_failed(job: Manifest) -> bool:
    return job.get("status", {}).get("jobDeploymentStatus") == "Failed"


def _service_is_well(service: Manifest, _objects: Objects) -> bool:
    return service.get("status", {}).get("serviceStatus") == "Running"


def _cron_job_is_well(cron: Manifest, objects: Objects) -> bool:
    """Return whether it has created a job."""
    prefix = f"{cron['metadata']['name']}-"
    return any(job["metadata"]["name"].startswith(prefix) for job in objects(RAYJOBS))


def _cron_job(name: str, now: datetime) -> Manifest:
    """Return a RayCronJob that is due at the next full minute, and then once an hour."""
    minute = (now + timedelta(minutes=1)).minute
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCronJob",
        "metadata": {"name": name},
        "spec": {"schedule": f"{minute} * * * *", "jobTemplate": job_manifest()["spec"]},
    }


KINDS = (
    Column(
        RAYCLUSTERS,
        creates="pods",
        manifest=lambda name, _now: example_cluster(name),
        cluster_spec=lambda cluster: cluster["spec"],
        is_well=_cluster_is_well,
        speaks=frozenset({"RayCluster"}),
    ),
    Column(
        RAYJOBS,
        creates="rayclusters.ray.io",
        manifest=lambda name, _now: job_manifest(name),
        cluster_spec=lambda job: job["spec"]["rayClusterSpec"],
        is_well=_job_is_well,
        has_ended=_job_has_failed,
        speaks=frozenset({"RayJob"}),
    ),
    Column(
        RAYSERVICES,
        creates="rayclusters.ray.io",
        manifest=lambda name, _now: service_manifest(name),
        cluster_spec=lambda service: service["spec"]["rayClusterConfig"],
        is_well=_service_is_well,
        speaks=frozenset({"RayService"}),
        has_own_reasons=False,
    ),
    Column(
        RAYCRONJOBS,
        creates="rayjobs.ray.io",
        manifest=_cron_job,
        cluster_spec=lambda cron: cron["spec"]["jobTemplate"]["rayClusterSpec"],
        is_well=_cron_job_is_well,
        speaks=frozenset({"RayCronJob", "RayJob"}),
        phase=50.0,
    ),
)
