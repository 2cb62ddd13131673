"""The input of the checks of a RayCluster: object, specification and templates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.apimachinery.template import (
        TemplateShape,
    )
    from controller.ray.api.feature_gates import FeatureGates
    from controller.ray.api.raycluster import ClusterSpec, RayCluster


AUTOSCALER_V2: Final = "RAY_enable_autoscaler_v2"


@dataclass(frozen=True, slots=True)
class ValidationContext:
    """A parsed cluster to validate.

    Attributes:
        cluster: the object.
        spec: its specification.
        head: the head's template.
        workers: the groups' templates, in the order of the groups.
        gates: the enabled features.
    """

    cluster: RayCluster
    spec: ClusterSpec
    head: TemplateShape
    workers: tuple[TemplateShape, ...]
    gates: FeatureGates

    @property
    def annotations(self) -> Mapping[str, str]:
        """The cluster's annotations."""
        return self.cluster.metadata.annotations or {}

    @property
    def autoscaler_v2(self) -> bool:
        """True if autoscaler v2 is selected, by the option or by the variable."""
        options = self.spec.autoscaler_options
        variable = self.head.ray.variable(AUTOSCALER_V2)
        by_variable = variable is not None and variable.value in {"1", "true"}
        return by_variable or (options is not None and options.version == "v2")
