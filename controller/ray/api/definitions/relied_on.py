"""The fields of RayClusters and RayJobs on which planners rely, wherever a kind embeds them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.apimachinery.schemas.object_schema import ObjectSchema

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
