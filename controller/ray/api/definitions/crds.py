"""The CustomResourceDefinitions that Manta serves.

`v1` is the storage version and has a complete schema. `v1alpha1` is served for old objects and
clients; the operator does not use it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

from controller.apimachinery.custom_object import dig, mapping
from controller.apimachinery.object_schema import ObjectSchema, UnknownField, unknown_fields
from controller.apimachinery.schema import (
    Column,
    Definition,
    Schema,
    definition,
    printed,
    served_version,
    string,
    struct,
)
from controller.ray.api import rayclusterfleet, raycronjob, rayservice
from controller.ray.api.definitions import rules
from controller.ray.api.definitions.raycluster import cluster_spec, cluster_status
from controller.ray.api.definitions.rayjob import (
    cron_job_spec,
    cron_job_status,
    job_spec,
    job_status,
)
from controller.ray.api.definitions.rayservice import (
    fleet_spec,
    fleet_status,
    service_spec,
    service_status,
)
from controller.ray.api.names import RayObject
from controller.ray.api.ray_options import RAY, unknown_words
from controller.ray.api.validation import cluster, job
from controller.ray.api.validation.context import NameRule
from controller.runtime.reconcile.definitions import UnknownFieldFinder

# The outermost level of the schema of every kind.


def custom_resource(
    kind: str, description: str, names: NameRule, spec: Schema, status: Schema
) -> Schema:
    """Return the `openAPIV3Schema` of `kind`."""
    return struct(
        description,
        {
            "apiVersion": string("Version of the schema of this object."),
            "kind": string(f"{kind}."),
            "metadata": rules.metadata(names),
            "spec": spec,
            "status": status,
        },
    )


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
        cluster.NAME_RULE,
        cluster_spec(),
        cluster_status(),
    )
    old = _v1alpha1("RayCluster", _RAYCLUSTER_COLUMNS)
    return _definition("RayCluster", schema, _RAYCLUSTER_COLUMNS, old)


def rayjob_definition() -> Definition:
    """Return the definition of RayJob."""
    description = "A job that Ray runs, on a cluster made for it or on one that is there."
    schema = custom_resource("RayJob", description, job.NAME_RULE, job_spec(), job_status())
    return _definition("RayJob", schema, _RAYJOB_COLUMNS, _v1alpha1("RayJob"))


def rayservice_definition() -> Definition:
    """Return the definition of RayService."""
    description = "Serves applications on a Ray cluster, and replaces the cluster safely."
    schema = custom_resource(
        "RayService", description, rayservice.NAME_RULE, service_spec(), service_status()
    )
    return _definition("RayService", schema, _RAYSERVICE_COLUMNS, _v1alpha1("RayService"))


def raycronjob_definition() -> Definition:
    """Return the definition of RayCronJob, which has no old version."""
    description = "Makes RayJobs at the times of a schedule."
    schema = custom_resource(
        "RayCronJob", description, raycronjob.NAME_RULE, cron_job_spec(), cron_job_status()
    )
    return _definition("RayCronJob", schema, _RAYCRONJOB_COLUMNS)


def rayclusterfleet_definition() -> Definition:
    """Return the definition of RayClusterFleet, which is Manta's own."""
    description = "Copies of one RayCluster, which are replaced one after the other."
    schema = custom_resource(
        "RayClusterFleet", description, rayclusterfleet.NAME_RULE, fleet_spec(), fleet_status()
    )
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
