"""What becomes of a RayCluster that nobody uses: the fields, and the annotations in their place.

`spec.idleTerminationOptions` and `spec.idleSuspend` are those that KubeRay is about to have
(https://github.com/ray-project/kuberay/pull/5210). Where an installed definition drops them,
annotations say the same: the options as the JSON of the field, and the word `true`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.apimachinery.template import field_or_annotation
from controller.ray.api import labels
from controller.ray.api.raycluster import IdleTerminationOptions

if TYPE_CHECKING:
    from controller.apimachinery.problem import Problem
    from controller.ray.api.raycluster import ClusterSpec, RayCluster

SUSPEND: Final = "Suspend"
DELETE: Final = "Delete"
SCALE_DOWN: Final = "ScaleToMinimum"
FIELD: Final = "spec.idleTerminationOptions"
ANNOTATION: Final = f"metadata.annotations[{labels.IDLE_TERMINATION}]"
_REMEDY: Final = 'write JSON such as {"timeoutSeconds": 3600, "policy": "Suspend"}'


class _Annotated(IdleTerminationOptions, frozen=True, forbid_unknown_fields=True):
    """The annotation's JSON, from which no API server drops unknown fields."""


def idle_options(cluster: RayCluster, spec: ClusterSpec) -> IdleTerminationOptions | Problem | None:
    """Return the options of the annotation, else of the specification; None without either."""
    text = (cluster.metadata.annotations or {}).get(labels.IDLE_TERMINATION, "")
    types, paths = (IdleTerminationOptions, _Annotated), (FIELD, ANNOTATION)
    return field_or_annotation(spec.idle_termination_options, text, types, paths, _REMEDY)


def is_idle_suspended(cluster: RayCluster, spec: ClusterSpec) -> bool:
    """Return whether the cluster is suspended because nobody used it, by field or annotation."""
    annotation = (cluster.metadata.annotations or {}).get(labels.IDLE_SUSPEND, "")
    return bool(spec.idle_suspend) or annotation.strip().lower() == "true"
