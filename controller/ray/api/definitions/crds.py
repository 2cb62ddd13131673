"""The CustomResourceDefinitions that Manta serves.

`v1` is the storage version and has a complete schema. `v1alpha1` is served for old objects and
clients; the operator does not use it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.apimachinery.schemas.schema import definition, printed, served_version
from controller.ray.api.definitions.custom_resource import custom_resource
from controller.ray.api.definitions.raycluster import cluster_spec, cluster_status
from controller.ray.api.definitions.rayclusterfleet import fleet_spec, fleet_status
from controller.ray.api.definitions.raycronjob import cron_job_spec, cron_job_status
from controller.ray.api.definitions.rayjob import job_spec, job_status
from controller.ray.api.definitions.rayservice import service_spec, service_status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controller.apimachinery.schemas.schema import Column, Definition, Schema

_AGE: Final = ("age", "date", ".metadata.creationTimestamp", 0)
_READY_REASON: Final = ("reason", "string", '.status.conditions[?(@.type=="Ready")].reason', 0)
_UPGRADING: Final = '.status.conditions[?(@.type=="Upgrading")].reason'

_RAYCLUSTER_COLUMNS: Final = (
    ("desired workers", "integer", ".status.desiredWorkerReplicas", 0),
    ("available workers", "integer", ".status.availableWorkerReplicas", 0),
    ("cpus", "string", ".status.desiredCPU", 0),
    ("memory", "string", ".status.desiredMemory", 0),
    ("gpus", "string", ".status.desiredGPU", 0),
    ("tpus", "string", ".status.desiredTPU", 1),
    ("status", "string", ".status.state", 0),
    _AGE,
    ("head pod IP", "string", ".status.head.podIP", 1),
    ("head service IP", "string", ".status.head.serviceIP", 1),
    _READY_REASON,
    ("upgrading", "string", _UPGRADING, 1),
)
"""KubeRay's columns in its order, then the reason of `Ready` and the state of the update."""


_RAYJOB_COLUMNS: Final = (
    ("job status", "string", ".status.jobStatus", 0),
    ("deployment status", "string", ".status.jobDeploymentStatus", 0),
    ("ray cluster name", "string", ".status.rayClusterName", 0),
    ("start time", "string", ".status.startTime", 0),
    ("end time", "string", ".status.endTime", 0),
    _AGE,
    ("failed attempts", "integer", ".status.failed", 0),
    ("reason", "string", ".status.reason", 0),
)
"""KubeRay's columns in its order, then failed attempts and the reason of the last failure."""

_RAYSERVICE_COLUMNS: Final = (
    ("service status", "string", ".status.serviceStatus", 0),
    ("num serve endpoints", "string", ".status.numServeEndpoints", 0),
    ("active", "string", ".status.activeServiceStatus.rayClusterName", 1),
    ("pending", "string", ".status.pendingServiceStatus.rayClusterName", 1),
    _AGE,
    _READY_REASON,
)
"""KubeRay's columns in its order, then the clusters, the age and the reason of `Ready`."""

_RAYCRONJOB_COLUMNS: Final = (
    ("schedule", "string", ".spec.schedule", 0),
    ("timezone", "string", ".spec.timeZone", 0),
    ("last schedule", "date", ".status.lastScheduleTime", 0),
    _AGE,
    ("suspend", "boolean", ".spec.suspend", 0),
    _READY_REASON,
)
"""KubeRay's columns in its order, then the reason why no jobs are created."""

_RAYCLUSTERFLEET_COLUMNS: Final = (
    ("desired", "integer", ".spec.replicas", 0),
    ("updated", "integer", ".status.updatedReplicas", 0),
    ("ready", "integer", ".status.readyReplicas", 0),
    ("upgrading", "string", _UPGRADING, 0),
    _AGE,
    _READY_REASON,
)


def custom_resource_definitions() -> list[Definition]:
    """Return all definitions as plain data ready to be created, KubeRay's kinds first."""
    return [
        raycluster_definition(),
        rayjob_definition(),
        rayservice_definition(),
        raycronjob_definition(),
        rayclusterfleet_definition(),
    ]


def raycluster_definition() -> Definition:
    """Return the definition of RayCluster."""
    schema = custom_resource(
        "RayCluster",
        "A Ray cluster: one head and groups of workers.",
        cluster_spec(),
        cluster_status(),
    )
    old = _v1alpha1("RayCluster", _RAYCLUSTER_COLUMNS)
    return _definition("RayCluster", schema, _RAYCLUSTER_COLUMNS, old)


def rayjob_definition() -> Definition:
    """Return the definition of RayJob."""
    description = "A job that Ray runs, on a cluster made for it or on one that is there."
    schema = custom_resource("RayJob", description, job_spec(), job_status())
    return _definition("RayJob", schema, _RAYJOB_COLUMNS, _v1alpha1("RayJob"))


def rayservice_definition() -> Definition:
    """Return the definition of RayService."""
    description = "Serves applications on a Ray cluster, and replaces the cluster safely."
    schema = custom_resource("RayService", description, service_spec(), service_status())
    return _definition("RayService", schema, _RAYSERVICE_COLUMNS, _v1alpha1("RayService"))


def raycronjob_definition() -> Definition:
    """Return the definition of RayCronJob, which has no old version."""
    description = "Makes RayJobs at the times of a schedule."
    schema = custom_resource("RayCronJob", description, cron_job_spec(), cron_job_status())
    return _definition("RayCronJob", schema, _RAYCRONJOB_COLUMNS)


def rayclusterfleet_definition() -> Definition:
    """Return the definition of RayClusterFleet, which is Manta's own."""
    description = "Copies of one RayCluster, which are replaced one after the other."
    schema = custom_resource("RayClusterFleet", description, fleet_spec(), fleet_status())
    stored = _stored("v1alpha1", schema, _RAYCLUSTERFLEET_COLUMNS)
    stored["subresources"]["scale"] = {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
    }
    return definition("manta.dev", "RayClusterFleet", stored)


def _definition(
    kind: str, schema: Schema, columns: Sequence[Column], *others: Definition
) -> Definition:
    """Return a definition of `ray.io` with version `v1` and others."""
    return definition("ray.io", kind, _stored("v1", schema, columns), *others)


def _stored(version: str, schema: Schema, columns: Sequence[Column]) -> Definition:
    return served_version(version, schema, columns, is_stored=True)


def _v1alpha1(kind: str, columns: Sequence[Column] = ()) -> Definition:
    """Return the old version, whose schema preserves every field."""
    return {
        "name": "v1alpha1",
        "served": True,
        "storage": False,
        "deprecated": True,
        "deprecationWarning": f"ray.io/v1alpha1 {kind} is deprecated; use ray.io/v1 {kind}",
        **printed(columns),
        "schema": {
            "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        },
        "subresources": {"status": {}},
    }
