"""Fields on which a RayService's planner relies: without them clusters would be replaced.

A status without clusters looks like that of a new RayService. A specification without worker groups
asks for another cluster, and one without `suspend` asks to serve. While a definition lacks such a
field, no cluster, service or config of a RayService is written, nor the RayService itself: a write
would store it without the missing fields.
"""

from __future__ import annotations

from typing import Final

from controller.ray.api.definitions.relied_on import CLUSTER_FIELDS
from controller.ray.api.raycluster import RAYCLUSTERS
from controller.ray.api.rayservice import RAYSERVICES
from controller.ray.service.observation import ACTIVE, PENDING
from controller.runtime.reconcile.definitions.installed_definition import (
    DefinitionReader,
    DefinitionsReader,
)

_CLUSTER: Final = (*CLUSTER_FIELDS, "workerGroupSpecs.maxReplicas")
_ROLLOUT: Final = (
    "rayClusterName",
    "targetCapacity",
    "trafficRoutedPercent",
    "lastTrafficMigratedTime",
)
RELIED_ON: Final = (
    "spec.rayClusterConfig",
    *(f"spec.rayClusterConfig.{field}" for field in _CLUSTER),
    "spec.serveConfigV2",
    "spec.upgradeStrategy",
    "spec.upgradeStrategy.type",
    "spec.upgradeStrategy.clusterUpgradeOptions",
    "spec.rayClusterDeletionDelaySeconds",
    "spec.suspend",
    "spec.managedBy",
    *(
        path
        for role in (ACTIVE, PENDING)
        for path in (f"status.{role}", *(f"status.{role}.{field}" for field in _ROLLOUT))
    ),
    "status.conditions",
    "status.observedGeneration",
)
"""Fields of a RayService that decide what it serves and on which clusters."""

RELIED_ON_IN_CLUSTERS: Final = (*(f"spec.{field}" for field in _CLUSTER), "status.conditions")
"""Fields of a RayCluster that are compared with the RayService's specification."""

_CONSEQUENCE: Final = (
    "RayServices are left as they are: no cluster is created, changed or deleted for them, and "
    "what serves continues"
)


def definitions_reader() -> DefinitionsReader:
    """Return a reader of what the installed definitions of RayServices and RayClusters lack."""
    return DefinitionsReader(
        DefinitionReader(RAYSERVICES, lambda _schema: RELIED_ON, _CONSEQUENCE),
        DefinitionReader(RAYCLUSTERS, lambda _schema: RELIED_ON_IN_CLUSTERS, _CONSEQUENCE),
    )
