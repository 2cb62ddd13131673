"""Validation of the Ray kinds: KubeRay's checks in its order, each with a remedy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

import msgspec

from controller.apimachinery.custom_object import CustomObject, parse
from controller.apimachinery.metadata import is_dns_1035_label
from controller.apimachinery.validation import Problem, TemplateShape, malformed, together
from controller.kube.objects import View
from controller.ray.api.feature_gates import FeatureGates
from controller.ray.api.names import RayObject
from controller.ray.api.raycluster import ClusterSpec, RayCluster

# The input of the checks of a RayCluster: object, specification and templates.

# What conditions and the rules of the definitions say in the same words.

GROUP_NAME: Final = (
    "must be 1 to 63 letters, digits, dashes or dots, because its pods are named and labelled "
    "after it"
)
NEEDS_ENTRYPOINT: Final = "must be set: it is the command that Ray runs"
NO_TIME_ZONE: Final = "must not name a time zone; say it in spec.timeZone"
NOT_NEGATIVE: Final = "must not be negative"

AUTOSCALER_V2: Final = "RAY_enable_autoscaler_v2"


class ValidationContext(msgspec.Struct, frozen=True):
    """A parsed cluster to validate.

    Attributes:
        head: the head's template.
        workers: the groups' templates, in the order of the groups.
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


# Checks that an object's name is a valid prefix for the names of its children.


class NameRule(msgspec.Struct, frozen=True):
    """The rule for the names of a kind's objects.

    Attributes:
        limit: maximum characters.
        noun: the object to create again under another name: `the cluster`.
        reason: reason of the problem.
        children: the objects whose names need the room that `limit` leaves.
        named_after: children whose names begin with this one and may not begin with a digit.
    """

    limit: int
    noun: str
    reason: str
    children: str = "clusters"
    named_after: str = "services"

    @property
    def too_long(self) -> str:
        """What is said of a name that has too many characters."""
        return f"must have at most {self.limit} characters, which {self._room}"

    @property
    def _room(self) -> str:
        return (
            f"leave room for the names of its {self.children}: create {self.noun} under a shorter "
            "name"
        )

    @property
    def malformed(self) -> str:
        """What is said of a name with other characters than its children's names may have."""
        return (
            "must consist of lower-case letters, digits and dashes and begin with a letter, "
            f"because {self.named_after} are named after it: create {self.noun} under another name"
        )

    def problem(self, name: str) -> Problem | None:
        """Return the problem of an object's name; None if it is valid."""
        if len(name) > self.limit:
            message = f"has {len(name)} characters; at most {self.limit} {self._room}"
        elif not is_dns_1035_label(name):
            message = self.malformed
        else:
            return None
        return Problem("metadata.name", message, self.reason)


# Reads the specification of an object, and checks it after its name.

Spec = TypeVar("Spec", bound=View)


def read_spec(obj: RayObject, view: type[Spec]) -> Spec | Problem:
    """Return the typed specification without nulls, or the problem of a field's type.

    That has no reason yet. The data is copied: read each object once.
    """
    try:
        return parse(obj.spec, view)
    except msgspec.ValidationError as error:
        return malformed(error, "spec")


def valid_or_problem(
    obj: CustomObject,
    name_rule: NameRule,
    spec: Spec | Problem,
    problems: Callable[[Spec], Iterable[Problem]],
    reason: str,
) -> Spec | Problem:
    """Return the specification if the object is valid, else all of its problems as one."""
    found = (spec,) if isinstance(spec, Problem) else problems(spec)
    name = name_rule.problem(obj.metadata.name)
    problem = together((*(() if name is None else (name,)), *found))
    if problem is not None:
        return problem.or_reason(reason)
    assert not isinstance(spec, Problem)
    return spec
