"""Reads the specification of an object, and checks it after its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec

from controller.apimachinery.custom_object import CustomObject
from controller.apimachinery.problem import Problem, together
from controller.apimachinery.template import malformed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from controller.ray.api.validation.object_name import NameRule

T = TypeVar("T", bound=CustomObject)
Spec = TypeVar("Spec")


def read_spec(obj: T, parse: Callable[[T], Spec]) -> Spec | Problem:
    """Return the typed specification, or the problem of a field's type, which has no reason yet.

    Args:
        obj: the object.
        parse: returns the typed specification or raises `msgspec.ValidationError`.
    """
    try:
        return parse(obj)
    except msgspec.ValidationError as error:
        return malformed(error, "spec")


def valid_or_problem(
    obj: CustomObject,
    name_rule: NameRule,
    spec: Spec | Problem,
    problems: Callable[[Spec], Iterable[Problem]],
    reason: str,
) -> Spec | Problem:
    """Return the specification if the object is valid, else all of its problems as one.

    Args:
        obj: the object.
        name_rule: the rule for its name.
        spec: the result of `read_spec`.
        problems: finds all problems of a specification, most basic first.
        reason: of problems without one.
    """
    found = (spec,) if isinstance(spec, Problem) else problems(spec)
    name = name_rule.problem(obj.metadata.name)
    problem = together((*(() if name is None else (name,)), *found))
    if problem is not None:
        return problem.or_reason(reason)
    assert not isinstance(spec, Problem)
    return spec
