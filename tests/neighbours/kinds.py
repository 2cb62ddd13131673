"""The columns: how each kind is created, and when it is well. A new kind adds one declaration."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from controller.kaito.api.inferenceset import INFERENCE_SETS
from controller.kaito.api.workspace import WORKSPACES
from controller.kube.resources import PODS, Resource
from controller.ray.api import RAYCLUSTERS, RAYJOBS, RAYSERVICES, labels
from controller.ray.api.rayclusterfleet import RAYCLUSTERFLEETS
from controller.ray.api.raycronjob import RAYCRONJOBS
from tests.integration.fleets import fleet_manifest
from tests.integration.harness import example_cluster
from tests.integration.inferencesets import set_manifest
from tests.integration.rays import job_manifest
from tests.integration.rayservices import service_manifest
from tests.integration.rolling import rolling_manifest, set_variable
from tests.integration.workspaces import manifest as workspace_manifest
from tests.neighbours.neighbourhood import Objects

Manifest = dict[str, Any]


class Column(Struct, frozen=True):
    """One kind.

    Attributes:
        manifest: an object of this name, created at this time, that becomes well by itself.
        creates: the resource of the objects that the operator creates for it.
        cluster_spec: the part of a manifest that describes a cluster; that of a Workspace.
        is_well: whether this object is ready, given all `ray.io` objects of its namespace.
        has_ended: whether it is over without having been well, so that its user creates another.
        speaks: kinds whose conditions and events may name the cause.
        has_own_reasons: whether the reason of `Ready` tells the cause; else it is one of KubeRay's,
            and the message alone tells.
        phase: second of the minute in which it is created.
        edit: changes a manifest so that an object that is well has something to do: it does that
            in sickness, instead of being created.
        has_pools: whether its nodes come from NodePools.
        unshared: resources without a namespace of which each object belongs to one of its objects.
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
    edit: Callable[[Manifest], None] | None = None
    has_pools: bool = False
    unshared: frozenset[str] = frozenset()
    name: str = ""

    def __str__(self) -> str:
        return self.name or self.resource.kind

    async def wait_for_phase(self) -> None:
        """Sleep until the second of the minute in which the object is to be created."""
        if self.phase is not None:
            now = asyncio.get_running_loop().time()
            await asyncio.sleep((self.phase - now) % 60)


def _cluster_is_well(cluster: Manifest, _objects: Objects) -> bool:
    return cluster.get("status", {}).get("state") == "ready"


def _rolled_cluster(name: str, _now: datetime) -> Manifest:
    """Return a RayCluster with two workers that are replaced one after the other."""
    manifest = rolling_manifest(2)
    manifest["metadata"]["name"] = name
    return manifest


def _edit_workers(cluster: Manifest) -> None:
    for group in cluster["spec"]["workerGroupSpecs"]:
        set_variable(group, "new")


def _is_rolled(cluster: Manifest, objects: Objects) -> bool:
    """Return whether all pods are there, are ready and have the variables of their templates."""
    status, spec = cluster.get("status", {}), cluster["spec"]
    seen = status.get("observedGeneration") == cluster["metadata"]["generation"]
    wanted = sorted(
        _variable(group["template"]["spec"])
        for group in spec["workerGroupSpecs"]
        for _ in range(group["replicas"] * group.get("numOfHosts", 1))
    )
    found = sorted(
        _variable(pod["spec"])
        for pod in objects(PODS)
        if _label_of(pod, labels.CLUSTER) == cluster["metadata"]["name"]
        and _label_of(pod, labels.NODE_TYPE) == "worker"
        and "deletionTimestamp" not in pod["metadata"]
    )
    return seen and status.get("state") == "ready" and wanted == found


def _label_of(pod: Manifest, name: str) -> str:
    return pod["metadata"].get("labels", {}).get(name, "")


def _variable(spec: Manifest) -> str:
    """Return the variable of Ray's container, before which a webhook may have put another one."""
    variables = (each for container in spec["containers"] for each in container.get("env", ()))
    return next((each["value"] for each in variables if each["name"] == "EDITION"), "")


def _job_is_well(job: Manifest, _objects: Objects) -> bool:
    status = job.get("status", {})
    return (status.get("jobDeploymentStatus"), status.get("jobStatus")) == ("Complete", "SUCCEEDED")


def _job_has_failed(job: Manifest) -> bool:
    return job.get("status", {}).get("jobDeploymentStatus") == "Failed"


def _service_is_well(service: Manifest, _objects: Objects) -> bool:
    return service.get("status", {}).get("serviceStatus") == "Running"


def _fleet_is_well(fleet: Manifest, _objects: Objects) -> bool:
    return _is_true("Ready", fleet)


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


def _workspace_is_well(workspace: Manifest, _objects: Objects) -> bool:
    return workspace.get("status", {}).get("state") == "Ready"


def _set_is_well(inference_set: Manifest, _objects: Objects) -> bool:
    return _is_true("InferenceSetReady", inference_set)


def _is_true(condition: str, found: Manifest) -> bool:
    conditions = found.get("status", {}).get("conditions", ())
    return any((each["type"], each["status"]) == (condition, "True") for each in conditions)


CLOUD = frozenset({"nodeclaims.karpenter.sh", "nodepools.karpenter.sh", "nodes"})
"""Resources of the cloud, which have no namespace."""

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
    Column(
        RAYCLUSTERFLEETS,
        creates="rayclusters.ray.io",
        manifest=lambda name, _now: fleet_manifest(name, replicas=2),
        cluster_spec=lambda fleet: fleet["spec"]["template"]["spec"],
        is_well=_fleet_is_well,
        speaks=frozenset({"RayClusterFleet"}),
        has_own_reasons=False,
    ),
    Column(
        RAYCLUSTERS,
        name="RollingUpdate",
        creates="pods",
        manifest=_rolled_cluster,
        edit=_edit_workers,
        cluster_spec=lambda cluster: cluster["spec"],
        is_well=_is_rolled,
        speaks=frozenset({"RayCluster"}),
        has_own_reasons=False,
    ),
    Column(
        WORKSPACES,
        creates="statefulsets.apps",
        manifest=lambda name, _now: workspace_manifest(name),
        cluster_spec=lambda workspace: workspace,
        is_well=_workspace_is_well,
        speaks=frozenset({"Workspace"}),
        has_own_reasons=False,
        unshared=CLOUD,
    ),
    Column(
        INFERENCE_SETS,
        creates="workspaces.kaito.sh",
        manifest=lambda name, _now: set_manifest(name),
        cluster_spec=lambda inference_set: inference_set["spec"]["template"],
        is_well=_set_is_well,
        speaks=frozenset({"InferenceSet", "Workspace"}),
        has_own_reasons=False,
        unshared=CLOUD,
    ),
    Column(
        WORKSPACES,
        name="NodePool",
        creates="statefulsets.apps",
        manifest=lambda name, _now: workspace_manifest(name),
        cluster_spec=lambda workspace: workspace,
        is_well=_workspace_is_well,
        speaks=frozenset({"Workspace"}),
        has_own_reasons=False,
        has_pools=True,
        unshared=CLOUD,
    ),
)
