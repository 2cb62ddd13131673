"""Fields on which a fleet's planner relies: without them copies would be replaced without reason.

While a definition lacks such a field, neither a copy of a fleet nor the fleet itself is written: a
write would store it without the missing fields.
"""

from __future__ import annotations

from typing import Final

from controller.ray.api.definitions.relied_on import CLUSTER_FIELDS
from controller.ray.api.raycluster import RAYCLUSTERS
from controller.ray.api.rayclusterfleet import RAYCLUSTERFLEETS
from controller.runtime.reconcile.definitions.installed_definition import (
    DefinitionReader,
    DefinitionsReader,
)

_CLUSTER: Final = (*CLUSTER_FIELDS, "workerGroupSpecs.maxReplicas", "suspend")
RELIED_ON: Final = (
    "spec.replicas",
    "spec.strategy",
    *(f"spec.strategy.{field}" for field in ("maxSurge", "maxUnavailable", "paused")),
    "spec.template",
    "spec.template.metadata",
    "spec.template.spec",
    *(f"spec.template.spec.{field}" for field in _CLUSTER),
    *(f"status.{field}" for field in ("conditions", "desiredReplicas", "templateHash")),
)
"""Fields of a fleet that decide how many copies there are, and which are replaced."""

RELIED_ON_IN_CLUSTERS: Final = (*(f"spec.{field}" for field in _CLUSTER), "status.conditions")
"""Fields of a RayCluster that are compared with the fleet's template, or show its state."""

_CONSEQUENCE: Final = (
    "RayClusterFleets are left as they are: no copy is created, changed or deleted for them"
)


def definitions_reader() -> DefinitionsReader:
    """Return a reader of what the installed definitions of fleets and RayClusters lack."""
    return DefinitionsReader(
        DefinitionReader(RAYCLUSTERFLEETS, lambda _schema: RELIED_ON, _CONSEQUENCE),
        DefinitionReader(RAYCLUSTERS, lambda _schema: RELIED_ON_IN_CLUSTERS, _CONSEQUENCE),
    )
