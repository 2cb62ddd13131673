"""What evictions must leave of a RayCluster: the field, and the annotation in its place.

KubeRay has no such field. Where its definition drops it, the annotation says the same as JSON. It
is read on a RayCluster; RayJobs and RayServices give theirs to the clusters that they create.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.apimachinery.template import field_or_annotation
from controller.ray.api import labels
from controller.ray.api.raycluster import DisruptionBudgets

if TYPE_CHECKING:
    from controller.apimachinery.problem import Problem
    from controller.ray.api.raycluster import ClusterSpec, RayCluster

FIELD: Final = "spec.disruptionBudgets"
ANNOTATION: Final = f"metadata.annotations[{labels.DISRUPTION_BUDGETS}]"
_REMEDY: Final = (
    'write JSON such as {"workersMaxUnavailablePercent": 25}, or an empty object for the head alone'
)


class _Annotated(DisruptionBudgets, frozen=True, forbid_unknown_fields=True):
    """The annotation's JSON, from which no API server drops unknown fields."""


def budget_options(cluster: RayCluster, spec: ClusterSpec) -> DisruptionBudgets | Problem | None:
    """Return the options of the annotation, else of the specification; None without either."""
    text = (cluster.metadata.annotations or {}).get(labels.DISRUPTION_BUDGETS, "")
    types, paths = (DisruptionBudgets, _Annotated), (FIELD, ANNOTATION)
    return field_or_annotation(spec.disruption_budgets, text, types, paths, _REMEDY)
