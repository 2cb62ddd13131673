"""RayClusterFleet, a kind of Manta's own: cached view, typed specification, and validation.

As in `raycluster`, the cached object keeps plain data.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any, ClassVar, Final

import msgspec

from controller.apimachinery.custom_object import dig, only, read_conditions
from controller.apimachinery.validation import Problem
from controller.kube.objects import View
from controller.kube.resources import Resource
from controller.ray.api.feature_gates import FeatureGates
from controller.ray.api.names import MAX_FLEET_NAME, RayObject
from controller.ray.api.upgrade_strategy import ReplicaBudget, budget_problems
from controller.ray.api.validation import NameRule, read_spec, valid_or_problem
from controller.ray.api.validation.cluster import embedded_cluster_problem

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
    """`spec.strategy`."""

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


# Validation; each problem has a remedy.

_DEFAULT_GATES: Final = FeatureGates()
INVALID_FLEET: Final = "InvalidRayClusterFleetSpec"
_TEMPLATE: Final = "spec.template.spec"
NAME_RULE: Final = NameRule(
    MAX_FLEET_NAME, noun="the fleet", reason="InvalidRayClusterFleetMetadata"
)


def validate_fleet(
    fleet: RayClusterFleet, gates: FeatureGates = _DEFAULT_GATES
) -> FleetSpec | Problem:
    """Return the specification if the object is valid, else all of its problems as one."""
    spec = read_spec(fleet, FleetSpec)
    problems = partial(_problems, gates=gates)
    return valid_or_problem(fleet, NAME_RULE, spec, problems, INVALID_FLEET)


def _problems(spec: FleetSpec, gates: FeatureGates) -> Iterator[Problem]:
    """Yield all problems, most basic first."""
    template = spec.template
    annotations = template.metadata.annotations
    problem = embedded_cluster_problem(template.spec, RAYCLUSTERFLEETS.kind, annotations, gates)
    if problem is not None:
        yield problem.under(_TEMPLATE, INVALID_FLEET)
    yield from _shared_objects(spec)
    yield from budget_problems(spec.strategy, "spec.strategy")


def _shared_objects(spec: FleetSpec) -> Iterator[Problem]:
    """Yield the objects that only one of several clusters can have."""
    for path, what in (
        (("headGroupSpec", "headService", "metadata", "name"), "a head service"),
        (("gcsFaultToleranceOptions", "storage", "claimName"), "a volume"),
    ):
        if dig(spec.template.spec, *path):
            message = f"must be left out: each copy of the fleet needs {what} of its own"
            yield Problem(f"{_TEMPLATE}.{'.'.join(path)}", message)
