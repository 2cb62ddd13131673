"""RayClusterFleet, a kind of Manta's own: the cached view and its typed specification.

As in `raycluster`, the cached object keeps plain data, and `parse_fleet_spec` raises the errors.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final

import msgspec

from controller.apimachinery.custom_object import only, parse, read_conditions
from controller.kube.objects import View
from controller.kube.resources import Resource
from controller.ray.api.names import RayObject
from controller.ray.api.upgrade_strategy import ReplicaBudget

MAX_REPLICAS: Final = 999
"""Maximum copies: the limit on names has room for indexes of three digits."""


class RayClusterFleet(RayObject, frozen=True, gc=True, weakref=True):
    """A cached RayClusterFleet."""

    status_fields: ClassVar = {
        "clusters": only(list),
        "conditions": read_conditions,
        "desiredReplicas": only(int),
        "observedGeneration": only(int),
        "readyReplicas": only(int),
        "replicas": only(int),
        "templateHash": only(str),
        "updatedReplicas": only(int),
    }


RAYCLUSTERFLEETS: Final = Resource(
    "manta.dev", "v1alpha1", "rayclusterfleets", "RayClusterFleet", RayClusterFleet
)


class FleetStrategy(ReplicaBudget, frozen=True):
    """`spec.strategy`.

    Attributes:
        progress_deadline_seconds: seconds without progress after which an upgrade counts as stuck.
        paused: whether to replace no copy.
    """

    progress_deadline_seconds: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)] = 600
    paused: bool = False


class ClusterTemplateMetadata(View, frozen=True):
    """`spec.template.metadata`."""

    labels: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    annotations: dict[str, str] = msgspec.field(default_factory=dict[str, str])


class ClusterTemplate(View, frozen=True):
    """`spec.template`.

    Attributes:
        spec: specification of the RayClusters, plain data without nulls.
        metadata: labels and annotations of the RayClusters.
    """

    spec: dict[str, Any]
    metadata: ClusterTemplateMetadata = ClusterTemplateMetadata()


class FleetSpec(View, frozen=True):
    """`spec` of a RayClusterFleet."""

    template: ClusterTemplate
    replicas: Annotated[int, msgspec.Meta(ge=0, le=MAX_REPLICAS)] = 1
    strategy: FleetStrategy = FleetStrategy()

    @property
    def suspended(self) -> bool:
        """True if the copies are to have no pods."""
        return self.template.spec.get("suspend") is True


def parse_fleet_spec(fleet: RayClusterFleet) -> FleetSpec:
    """Return the typed specification without nulls. It copies the data: parse each object once.

    Raises:
        msgspec.ValidationError: a field has the wrong type or is missing.
    """
    return parse(fleet.spec, FleetSpec)
