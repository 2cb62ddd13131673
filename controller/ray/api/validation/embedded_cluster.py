"""Checks a cluster's specification that is embedded in an object of another kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controller.apimachinery.problem import Problem
from controller.ray.api import labels
from controller.ray.api.raycluster import ClusterMeta, RayCluster
from controller.ray.api.validation.cluster import validate_cluster

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.ray.api.feature_gates import FeatureGates


def embedded_cluster_problem(
    spec: Mapping[str, Any],
    origin: str,
    annotations: Mapping[str, str] | None,
    gates: FeatureGates,
) -> Problem | None:
    """Return the problem of the cluster to be created; its field begins with `spec`.

    Args:
        spec: the cluster's specification.
        origin: kind of the object.
        annotations: annotations of the object, which the cluster inherits.
        gates: the enabled features.
    """
    imagined = RayCluster(
        metadata=ClusterMeta(
            name="cluster",
            labels={labels.ORIGIN_KIND: origin},
            annotations=dict(annotations) if annotations is not None else None,
        ),
        spec=dict(spec),
    )
    result = validate_cluster(imagined, gates)
    return result if isinstance(result, Problem) else None
