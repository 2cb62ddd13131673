"""Settings of the RayClusterFleet controller."""

from __future__ import annotations

from dataclasses import dataclass, field

from controller.ray.api.feature_gates import FeatureGates


@dataclass(frozen=True, slots=True)
class FleetSettings:
    """Settings of the RayClusterFleet controller.

    Attributes:
        feature_gates: the enabled features.
    """

    feature_gates: FeatureGates = field(default_factory=FeatureGates)
