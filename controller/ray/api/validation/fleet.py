"""Validates a RayClusterFleet; each problem has a remedy."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from controller.apimachinery.custom_object import dig
from controller.apimachinery.problem import Problem
from controller.ray.api.feature_gates import FeatureGates
from controller.ray.api.names import MAX_FLEET_NAME
from controller.ray.api.rayclusterfleet import RAYCLUSTERFLEETS, parse_fleet_spec
from controller.ray.api.upgrade_strategy import budget_problems
from controller.ray.api.validation.cluster import embedded_cluster_problem
from controller.ray.api.validation.context import NameRule, read_spec, valid_or_problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.ray.api.rayclusterfleet import FleetSpec, RayClusterFleet

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
    spec = read_spec(fleet, parse_fleet_spec)
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
