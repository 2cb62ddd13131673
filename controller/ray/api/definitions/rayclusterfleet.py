"""The schema of a RayClusterFleet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.apimachinery.schemas.core_schemas import conditions
from controller.apimachinery.schemas.schema import (
    array,
    boolean,
    int32,
    int64,
    int_or_percentage,
    string,
    strings,
    struct,
)
from controller.ray.api.definitions.raycluster import cluster_spec
from controller.ray.api.rayclusterfleet import MAX_REPLICAS

if TYPE_CHECKING:
    from controller.apimachinery.schemas.schema import Schema


def fleet_spec() -> Schema:
    """Return the schema of `spec`."""
    metadata = struct(
        "Labels and annotations of the RayClusters.",
        {
            "annotations": strings("Annotations of the RayClusters."),
            "labels": strings("Labels of the RayClusters."),
        },
    )
    template = struct(
        "The RayClusters, which are alike.",
        {"metadata": metadata, "spec": cluster_spec()},
        required=["spec"],
    )
    return struct(
        "How many copies of a cluster there are, and how they are replaced.",
        {
            "replicas": int32("Number of copies.", default=1, minimum=0, maximum=MAX_REPLICAS),
            "strategy": _strategy(),
            "template": template,
        },
        required=["template"],
    )


def _strategy() -> Schema:
    return struct(
        "How a changed template reaches the copies.",
        {
            "maxSurge": int_or_percentage(
                "Copies that may exist above the number, or their percentage, rounded up; 1 if not "
                "given."
            ),
            "maxUnavailable": int_or_percentage(
                "Copies that may be missing, or their percentage, rounded down; 0 if not given."
            ),
            "paused": boolean("Whether no copy is replaced for now."),
            "progressDeadlineSeconds": int32(
                "Seconds without progress after which an upgrade counts as stuck, 600 if not "
                "given.",
                minimum=1,
            ),
        },
    )


def fleet_status() -> Schema:
    """Return the schema of `status`."""
    cluster = struct(
        "One copy.",
        {
            "index": int32("Which copy it is, from 0; its replacement inherits it."),
            "message": string("Why it is not ready."),
            "name": string("Name of its RayCluster."),
            "ready": boolean("Whether its head and all workers are ready."),
            "updated": boolean("Whether it was created from the present template."),
        },
        required=["name"],
    )
    return struct(
        "The observed state of the copies.",
        {
            "clusters": array("The copies, by index; the older first.", cluster, keys=["name"]),
            "conditions": conditions("the fleet"),
            "desiredReplicas": int32("Number of copies that this generation asks for."),
            "observedGeneration": int64("Generation of the specification that this is about."),
            "readyReplicas": int32("Indexes that have a ready copy."),
            "replicas": int32("Copies that exist and stay."),
            "templateHash": string("Hash of the present template."),
            "updatedReplicas": int32("Copies that were created from the present template."),
        },
    )
