"""Label and field selectors: parsed once, then matched against objects."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from controller.devcluster.apiserver.jsondata import Json, child
from controller.devcluster.apiserver.status import bad_request

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, slots=True)
class Requirement:
    """One term of a label selector.

    Attributes:
        key: label key.
        operator: `in`, `notin`, `exists`, `absent`, `gt` or `lt`.
        values: the values that the operator compares with.
    """

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether labels satisfy this term. A missing key satisfies only `notin` and `absent`."""
        value = labels.get(self.key)
        if self.operator == "in":
            return value in self.values
        if self.operator == "notin":
            return value not in self.values
        if self.operator == "exists":
            return value is not None
        if self.operator == "absent":
            return value is None
        return self._compares(value)

    def _compares(self, value: str | None) -> bool:
        if value is None or not re.fullmatch(r"-?\d+", value):
            return False
        (bound,) = self.values
        return int(value) > int(bound) if self.operator == "gt" else int(value) < int(bound)


_SET = re.compile(r"\s*([^\s,!=()<>]+)\s+(in|notin)\s*\(([^()]*)\)\s*")
_COMPARISON = re.compile(r"\s*([^\s,!=()<>]+)\s*(==|=|!=|>|<)\s*([^\s,!=()<>]*)\s*")
_PRESENCE = re.compile(r"\s*(!?)\s*([^\s,!=()<>]+)\s*")


def parse_label_selector(text: str) -> tuple[Requirement, ...]:
    """Parse a label selector.

    Raises:
        ApiError: 400, it does not follow the grammar.
    """
    requirements: list[Requirement] = []
    position = 0
    while position < len(text):
        requirement, position = _parse_requirement(text, position)
        requirements.append(requirement)
        if position < len(text):
            if text[position] != "," or position + 1 == len(text):
                raise _unparsable(text, position)
            position += 1
    return tuple(requirements)


def _parse_requirement(text: str, position: int) -> tuple[Requirement, int]:
    if match := _SET.match(text, position):
        key, operator, values = match.groups()
        return Requirement(
            key, operator, frozenset(value.strip() for value in values.split(","))
        ), match.end()
    if match := _COMPARISON.match(text, position):
        key, sign, value = match.groups()
        operator = {"!=": "notin", ">": "gt", "<": "lt"}.get(sign, "in")
        if operator in {"gt", "lt"} and not re.fullmatch(r"-?\d+", value):
            raise _unparsable(text, position)
        return Requirement(key, operator, frozenset({value})), match.end()
    if match := _PRESENCE.match(text, position):
        negated, key = match.groups()
        return Requirement(key, "absent" if negated else "exists"), match.end()
    raise _unparsable(text, position)


def _unparsable(text: str, position: int) -> Exception:
    rest = text[position : position + 1]
    found = f"found '{rest}'" if rest else "found ''"
    return bad_request(
        f"unable to parse requirement: {found}, expected: identifier or a valid operator"
    )


@dataclass(frozen=True, slots=True)
class FieldRequirement:
    """One term of a field selector: a field equals a value, or does not."""

    label: str
    value: str
    equal: bool
    read: Callable[[Json], str]

    def matches(self, object_: Json) -> bool:
        """Whether an object satisfies this term."""
        return (self.read(object_) == self.value) is self.equal


def parse_field_selector(
    text: str, fields: Mapping[str, Callable[[Json], str]], unsupported: Callable[[str], Exception]
) -> tuple[FieldRequirement, ...]:
    """Parse a field selector.

    Args:
        text: `status.phase!=Failed,spec.nodeName=a`.
        fields: the fields that this resource can be selected by.
        unsupported: makes the error for another field.

    Raises:
        ApiError: 400, bad syntax or unsupported field.
    """
    terms: list[FieldRequirement] = []
    for term in filter(None, text.split(",")):
        match = re.fullmatch(r"([^=!]+)(!=|==|=)(.*)", term)
        if match is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        label, sign, value = match.groups()
        if label not in fields:
            raise unsupported(label)
        terms.append(FieldRequirement(label, value, sign != "!=", fields[label]))
    return tuple(terms)


@dataclass(frozen=True, slots=True)
class Selection:
    """Label and field terms of one list or watch."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[FieldRequirement, ...] = ()

    def __bool__(self) -> bool:
        """Whether anything is selected by at all."""
        return bool(self.labels or self.fields)

    def matches(self, object_: Json) -> bool:
        """Whether an object is selected."""
        if self.labels:
            labels = child(object_["metadata"], "labels")
            if not all(requirement.matches(labels) for requirement in self.labels):
                return False
        return all(term.matches(object_) for term in self.fields)
