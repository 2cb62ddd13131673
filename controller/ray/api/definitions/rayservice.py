"""The definitions of RayServices and RayClusterFleets."""

from __future__ import annotations

from controller.apimachinery.core_schemas import conditions, service
from controller.apimachinery.schema import (
    Schema,
    array,
    boolean,
    int32,
    int64,
    int_or_percentage,
    map_of,
    string,
    strings,
    struct,
    time,
)
from controller.ray.api.definitions import rules
from controller.ray.api.definitions.raycluster import cluster_spec, cluster_status, managed_by
from controller.ray.api.rayclusterfleet import MAX_REPLICAS

# The schema of a RayService: every field of KubeRay's.


def service_spec() -> Schema:
    """Return the schema of `spec`."""
    return struct(
        "The applications to serve, and the cluster that serves them.",
        {
            "deploymentUnhealthySecondThreshold": int32("Ignored; KubeRay ignores it too."),
            "excludeHeadPodFromServeSvc": boolean(
                "Whether requests are kept from the head, so that only workers serve."
            ),
            "managedBy": managed_by(),
            "rayClusterConfig": {
                **cluster_spec(),
                "description": "The cluster; most changes of it lead to a new one.",
            },
            "rayClusterDeletionDelaySeconds": int32(
                "Seconds for which a replaced cluster is kept, 60 if not given.", minimum=0
            ),
            "serveConfigV2": string("The applications, as YAML of Ray Serve's multi-app config."),
            "serveService": service("Template of the service of the applications."),
            "serviceUnhealthySecondThreshold": int32("Ignored; KubeRay ignores it too."),
            "suspend": boolean("Whether nothing is served: its clusters and services are deleted."),
            "upgradeStrategy": _upgrade_strategy(),
        },
        required=["rayClusterConfig"],
    )


def _upgrade_strategy() -> Schema:
    options = struct(
        "How an incremental upgrade proceeds.",
        {
            "gatewayClassName": string("Class of the Gateway that divides the requests."),
            "intervalSeconds": int32("Seconds between two changes of the division."),
            "maxSurgePercent": int32(
                "By how much both clusters together may exceed the full capacity.", default=100
            ),
            "stepSizePercent": int32("By how much the division changes at a time."),
        },
        required=["gatewayClassName", "intervalSeconds", "stepSizePercent"],
    )
    return struct(
        "What a new specification of the cluster leads to.",
        {
            "clusterUpgradeOptions": options,
            "type": string(
                "NewCluster, the default, prepares a new cluster and switches to it at once; "
                "NewClusterWithIncrementalUpgrade moves capacity and requests step by step; None "
                "keeps the cluster.",
                **rules.upgrade_type,
            ),
        },
    )


def service_status() -> Schema:
    """Return the schema of `status`."""
    return struct(
        "The observed state of the service.",
        {
            "activeServiceStatus": _cluster_state("The cluster that serves."),
            "conditions": conditions("the service"),
            "lastUpdateTime": time("When this status was last written."),
            "numServeEndpoints": int32("Number of pods that requests reach."),
            "observedGeneration": int64("Generation of the specification that this is about."),
            "pendingServiceStatus": _cluster_state("The cluster that takes over."),
            "serviceStatus": string("Running, or empty while nothing is served."),
        },
    )


def _cluster_state(description: str) -> Schema:
    deployment = struct(
        "State of one deployment.",
        {"message": string("Why, in words."), "status": string("HEALTHY, UPDATING ...")},
    )
    application = struct(
        "State of one application.",
        {
            "message": string("Why, in words."),
            "serveDeploymentStatuses": map_of("Its deployments, by name.", deployment),
            "status": string("RUNNING, DEPLOYING, DEPLOY_FAILED ..."),
        },
    )
    return struct(
        description,
        {
            "applicationStatuses": map_of("Its applications, by name.", application),
            "lastTrafficMigratedTime": time("When its share of the requests last changed."),
            "rayClusterName": string("Name of the cluster."),
            "rayClusterStatus": {**cluster_status(), "description": "Status of the cluster."},
            "targetCapacity": int32("Percent of its full capacity that it is to have."),
            "trafficRoutedPercent": int32("Percent of the requests that it gets."),
        },
    )


# The schema of a RayClusterFleet.


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
