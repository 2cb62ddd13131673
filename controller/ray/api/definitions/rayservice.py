"""The schema of a RayService: every field of KubeRay's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.apimachinery.schemas.core_schemas import conditions, service
from controller.apimachinery.schemas.schema import (
    boolean,
    int32,
    int64,
    map_of,
    string,
    struct,
    time,
)
from controller.ray.api.definitions.raycluster import cluster_spec, cluster_status, managed_by

if TYPE_CHECKING:
    from controller.apimachinery.schemas.schema import Schema


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
                "keeps the cluster."
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
