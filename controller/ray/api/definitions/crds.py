"""The CustomResourceDefinitions that Manta serves.

`v1` is the storage version and has a complete schema. `v1alpha1` is served for old objects and
clients; the operator does not use it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from controller.apimachinery.custom_object import dig, mapping
from controller.apimachinery.object_schema import ObjectSchema, UnknownField, unknown_fields
from controller.apimachinery.schema import (
    Definition,
    definition,
    printed,
    read_schemas,
    served_version,
)
from controller.ray.api.definitions.rules import PARTS
from controller.ray.api.names import RayObject
from controller.ray.api.ray_options import RAY, unknown_words
from controller.runtime.reconcile.definitions import UnknownFieldFinder

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
    ("idle", "string", '.status.conditions[?(@.type=="Idle")].status', 1),
)
"""KubeRay's columns in its order, then the reason of `Ready`, the update, and its use."""

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


_COLUMNS: Final = {
    "RayCluster": _RAYCLUSTER_COLUMNS,
    "RayJob": _RAYJOB_COLUMNS,
    "RayService": _RAYSERVICE_COLUMNS,
    "RayCronJob": _RAYCRONJOB_COLUMNS,
    "RayClusterFleet": _RAYCLUSTERFLEET_COLUMNS,
}
SCHEMAS: Final = read_schemas("controller.ray.api.definitions", PARTS)


def custom_resource_definitions() -> list[Definition]:
    """Return all definitions as plain data ready to be created, KubeRay's kinds first."""
    return [ray_definition(kind) for kind in _COLUMNS]


def ray_definition(kind: str) -> Definition:
    """Return the definition of a kind."""
    if kind != "RayClusterFleet":
        old = [] if kind == "RayCronJob" else [_v1alpha1(kind)]
        return definition("ray.io", kind, _stored("v1", kind), *old)
    stored = _stored("v1alpha1", kind)
    stored["subresources"]["scale"] = {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
    }
    return definition("manta.dev", kind, stored)


def _stored(version: str, kind: str) -> Definition:
    return served_version(version, SCHEMAS.schema(kind), _COLUMNS[kind], is_stored=True)


def _v1alpha1(kind: str) -> Definition:
    """Return the old version, whose schema preserves every field."""
    return {
        "name": "v1alpha1",
        "served": True,
        "storage": False,
        "deprecated": True,
        "deprecationWarning": f"ray.io/v1alpha1 {kind} is deprecated; use ray.io/v1 {kind}",
        **printed(_RAYCLUSTER_COLUMNS if kind == "RayCluster" else ()),
        "schema": {
            "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        },
        "subresources": {"status": {}},
    }


# The fields of RayClusters and RayJobs on which planners rely, wherever a kind embeds them.

CLUSTER_FIELDS: Final = (
    "workerGroupSpecs",
    "workerGroupSpecs.replicas",
    "workerGroupSpecs.minReplicas",
    "workerGroupSpecs.numOfHosts",
    "enableInTreeAutoscaling",
)
"""Fields of a cluster's specification that decide how many workers it has."""

_JOB_FIELDS: Final = (
    "suspend",
    "managedBy",
    "submissionMode",
    "clusterSelector",
    "backoffLimit",
    "shutdownAfterJobFinishes",
    "ttlSecondsAfterFinished",
    "rayClusterSpec",
    *(f"rayClusterSpec.{path}" for path in CLUSTER_FIELDS),
)
"""Fields of a job's specification that decide whether, how often and where it runs.

Those that decide what is deleted after it are among them.
"""

_RULES: Final = "deletionStrategy.deletionRules"


def job_fields(schema: ObjectSchema, path: str) -> Iterator[str]:
    """Yield the fields of a job's specification at `path` on which the planner relies.

    An older definition without deletion rules is harmless: it deletes nothing. Rules without their
    delays would delete at once.
    """
    yield from (f"{path}.{field}" for field in _JOB_FIELDS)
    if not schema.lacks(f"{path}.{_RULES}"):
        yield f"{path}.{_RULES}.condition.ttlSeconds"


# The pod templates in the specifications of Ray's kinds, and their unknown fields.


def unknown_field_finder() -> UnknownFieldFinder:
    """Return a function that finds the misspelt fields of an object: of pods, and Ray's words."""

    def find(obj: RayObject, pod: ObjectSchema) -> Iterator[UnknownField]:
        schema = pod.part("metadata", "spec")
        for where, template in pod_templates(mapping(obj.spec), "spec"):
            yield from unknown_fields(template, schema, where)

    return UnknownFieldFinder(find, RAY, unknown_words)


def pod_templates(spec: Mapping[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    """Yield the pod templates of a specification, each with its path."""
    yield f"{path}.headGroupSpec.template", dig(spec, "headGroupSpec", "template")
    groups = spec.get("workerGroupSpecs")
    for position, group in enumerate(cast("list[Any]", groups) if isinstance(groups, list) else ()):
        yield f"{path}.workerGroupSpecs[{position}].template", mapping(group).get("template")
    yield f"{path}.submitterPodTemplate", spec.get("submitterPodTemplate")
    for name in ("rayClusterSpec", "rayClusterConfig", "jobTemplate"):
        if name in spec:
            yield from pod_templates(mapping(spec[name]), f"{path}.{name}")
    if "template" in spec:
        yield from pod_templates(mapping(dig(spec, "template", "spec")), f"{path}.template.spec")
