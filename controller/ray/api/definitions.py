"""The CustomResourceDefinitions that Manta serves.

`v1` is the storage version and has a complete schema. `v1alpha1` is served for old objects and
clients; the operator does not use it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Final

from controller.apimachinery.object_schema import ObjectSchema, UnknownField, unknown_fields
from controller.apimachinery.schedule import LONGEST_SCHEDULE, schedule_pattern
from controller.apimachinery.schema import (
    Definition,
    Schema,
    definition,
    printed,
    read_schemas,
    rule,
    rules,
    served_version,
)
from controller.apimachinery.validation import NO_CONTAINER
from controller.ray.api import rayclusterfleet, raycronjob, rayservice
from controller.ray.api.names import RayObject
from controller.ray.api.ray_options import RAY, groups_of, specifications, unknown_words
from controller.ray.api.rayjob import SubmissionMode
from controller.ray.api.rayservice import UpgradeType
from controller.ray.api.validation import (
    NEEDS_ENTRYPOINT,
    NO_TIME_ZONE,
    NOT_NEGATIVE,
    NameRule,
    cluster,
    job,
)
from controller.runtime.definitions import UnknownFieldFinder

# What the API server itself refuses: CEL rules of the definitions, and their words.
#
# A rule refuses only what neither Manta nor KubeRay runs, and stands at the smallest part that it
# judges: the API server (1.30 and newer) does not judge a part again that an update leaves as it
# is, so that stored objects keep their status, lose their finalizers and can be edited elsewhere.
# That goes for rules that do not hold, not for rules that cannot be evaluated: none may meet an
# error.


def _name(names: NameRule) -> Schema:
    return rules(
        rule(f"size(self) <= {names.limit}", names.too_long),
        rule("self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')", names.malformed),
    )


_WITH_CONTAINER: Final = rules(
    rule(
        "has(self.spec) && has(self.spec.containers) && size(self.spec.containers) > 0",
        f"spec.containers {NO_CONTAINER}",
    )
)
_GROUP_NAME: Final[Schema] = {
    "maxLength": 63,
    "pattern": "^[A-Za-z0-9]([-.A-Za-z0-9]*[A-Za-z0-9])?$",
}
"""Without a rule of its own: a rule for each of any number of groups would cost too much."""

_WORKER_GROUP: Final = rules(
    rule(
        "!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",
        "minReplicas is larger than maxReplicas; lower minReplicas or raise maxReplicas",
    )
)


def _one_of(words: type[Enum]) -> Schema:
    values = [each.value for each in words]
    named = ", ".join(f"'{value}'" for value in values)
    return rules(rule(f"self in ['', {named}]", f"must be one of {', '.join(values)}"))


_SELECTS: Final = "has(self.clusterSelector) && size(self.clusterSelector) > 0"
_RETRIES: Final = "has(self.backoffLimit) && self.backoffLimit > 0"
_TTL: Final = "has(self.ttlSecondsAfterFinished) && self.ttlSecondsAfterFinished > 0"
_SHUTS_DOWN: Final = "has(self.shutdownAfterJobFinishes) && self.shutdownAfterJobFinishes"


def _mode(mode: SubmissionMode) -> str:
    return f"has(self.submissionMode) && self.submissionMode == '{mode.value}'"


_JOB: Final = rules(
    rule(
        f"({_mode(SubmissionMode.INTERACTIVE)}) || has(self.submitterPodTemplate) || "
        "(has(self.entrypoint) && self.entrypoint != '')",
        f"entrypoint {NEEDS_ENTRYPOINT}",
    ),
    rule(
        f"has(self.rayClusterSpec) || ({_SELECTS})",
        "rayClusterSpec must be set, to create a cluster, or clusterSelector to use an existing "
        "one",
    ),
    rule(
        f"!({_TTL}) || ({_SHUTS_DOWN})",
        "ttlSecondsAfterFinished needs shutdownAfterJobFinishes to be true; or leave it out, and "
        "give deletionStrategy.deletionRules a condition.ttlSeconds instead",
    ),
    rule(
        f"!({_SELECTS}) || !({_RETRIES})",
        "backoffLimit must be 0 with clusterSelector: retries need new clusters",
    ),
    rule(
        f"!({_mode(SubmissionMode.INTERACTIVE)}) || !({_RETRIES})",
        "backoffLimit must be 0 with submissionMode InteractiveMode: you submit the job",
    ),
    rule(
        f"!({_mode(SubmissionMode.SIDECAR)}) || !(({_SELECTS}) || "
        "has(self.submitterPodTemplate) || has(self.submitterConfig))",
        "submissionMode SidecarMode cannot be used with clusterSelector, submitterPodTemplate or "
        "submitterConfig; remove them or use another mode",
    ),
)
_CRONTAB: Final = schedule_pattern().replace("\\", "\\\\")
_SCHEDULE: Final[Schema] = {
    "maxLength": LONGEST_SCHEDULE,
    **rules(
        rule("!self.contains('TZ')", NO_TIME_ZONE),
        rule(
            f"self.startsWith('@') || self.matches('{_CRONTAB}')",
            "must be five fields: minute (0-59), hour (0-23), day of month (1-31), month (1-12 or "
            "jan-dec) and day of week (0-6 or sun-sat), such as '30 3 * * mon'; or @daily and the "
            "like",
        ),
    ),
}
PARTS: Final[Mapping[str, Schema]] = {
    "cluster_name": _name(cluster.NAME_RULE),
    "job_name": _name(job.NAME_RULE),
    "service_name": _name(rayservice.NAME_RULE),
    "cron_job_name": _name(raycronjob.NAME_RULE),
    "fleet_name": _name(rayclusterfleet.NAME_RULE),
    "fleet_size": {"minimum": 0, "maximum": rayclusterfleet.MAX_REPLICAS},
    "not_negative": rules(rule("self >= 0", NOT_NEGATIVE)),
    "positive": rules(rule("self > 0", "must be positive, or left out")),
    "with_container": _WITH_CONTAINER,
    "group_name": _GROUP_NAME,
    "worker_group": _WORKER_GROUP,
    "submission_mode": _one_of(SubmissionMode),
    "upgrade_type": _one_of(UpgradeType),
    "job": _JOB,
    "schedule": _SCHEDULE,
}
"""The parts of the schemas in `schemas.txt` that share words or numbers with the validation."""


# The definitions: the schemas of `schemas.txt`, and the columns that `kubectl get` prints.

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
SCHEMAS: Final = read_schemas("controller.ray.api", PARTS)


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
        for path, spec in specifications(obj.spec):
            for where, group in groups_of(path, spec):
                yield from unknown_fields(group.get("template"), schema, f"{where}.template")
            submitter = spec.get("submitterPodTemplate")
            yield from unknown_fields(submitter, schema, f"{path}.submitterPodTemplate")

    return UnknownFieldFinder(find, RAY, unknown_words)
