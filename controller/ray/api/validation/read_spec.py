"""Reads the specification of an object, and checks it after its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec

from controller.apimachinery.custom_object import CustomObject, undecodable_problem
from controller.apimachinery.problem import Problem
from controller.apimachinery.template import malformed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from controller.ray.api.validation.object_name import NameRule

T = TypeVar("T", bound=CustomObject)
Spec = TypeVar("Spec")


def read_spec(obj: T, name_rule: NameRule, parse: Callable[[T], Spec]) -> Spec | Problem:
    """Return the typed specification, or the problem of the object's name or of a field's type.

    A problem of a field's type has no reason yet; neither has one of a field that could not be
    decoded.

    Args:
        obj: the object.
        name_rule: the rule for its name.
        parse: returns the typed specification or raises `msgspec.ValidationError`.
    """
    problem = name_rule.problem(obj.metadata.name)
    problem = problem or undecodable_problem(obj)
    if problem is not None:
        return problem
    try:
        return parse(obj)
    except msgspec.ValidationError as error:
        return malformed(error, "spec")


def first_problem_or(
    spec: Spec | Problem, problems: Callable[[Spec], Iterator[Problem]], reason: str
) -> Spec | Problem:
    """Return the specification if it is valid, else its first problem.

    Args:
        spec: the result of `read_spec`.
        problems: finds all problems of a specification, most basic first.
        reason: of problems without one.
    """
    if isinstance(spec, Problem):
        return spec.or_reason(reason)
    problem = next(problems(spec), None)
    return spec if problem is None else problem.or_reason(reason)
