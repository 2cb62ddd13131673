"""Label and field selectors: parsed once, then matched against objects."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from msgspec import Struct

from controller.devcluster.apiserver.objects import Json, child, is_label_value
from controller.devcluster.apiserver.status import bad_request


class LabelRequirement(Struct, frozen=True):
    """One term of a label selector.

    Attributes:
        operator: `in`, `notin`, `exists`, `absent`, `gt` or `lt`.
    """

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels satisfy it; a missing key satisfies only `notin` and `absent`."""
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


_WORD = r"[^\s!=<>(),]+"
_REQUIREMENT = re.compile(
    rf"\s*(?:!\s*(?P<absent>{_WORD})"
    rf"|(?P<key>{_WORD})\s*(?:(?P<sign>==|!=|[=<>])\s*(?P<value>{_WORD})?"
    rf"|(?P<set>in|notin)\s*\((?P<values>[^()]*)\))?)\s*(?P<end>,|$)"
)
_OPERATORS = {"=": "in", "==": "in", "!=": "notin", ">": "gt", "<": "lt"}


def parse_label_selector(text: str) -> tuple[LabelRequirement, ...]:
    """Parse a label selector.

    Raises:
        ApiError: 400, it does not follow the grammar.
    """
    requirements: list[LabelRequirement] = []
    position, more = 0, bool(text.strip())
    while more:
        match = _REQUIREMENT.match(text, position)
        if match is None:
            raise bad_request(f"unable to parse requirement: {text[position:]!r}")
        requirements.append(_requirement(match))
        position, more = match.end(), match["end"] == ","
    return tuple(requirements)


def _requirement(match: re.Match[str]) -> LabelRequirement:
    if match["absent"]:
        return LabelRequirement(match["absent"], "absent")
    key = match["key"]
    if match["set"]:
        operator, values = match["set"], [each.strip() for each in match["values"].split(",")]
    elif match["sign"]:
        operator, values = _OPERATORS[match["sign"]], [match["value"] or ""]
    else:
        return LabelRequirement(key, "exists")
    is_number = operator not in {"gt", "lt"} or re.fullmatch(r"-?\d+", values[0])
    problems = [problem for value in values for problem in is_label_value(value)]
    if problems or not is_number:
        why = problems[0] if problems else "it must be an integer"
        raise bad_request(f"unable to parse requirement: values of {key}: {why}")
    return LabelRequirement(key, operator, frozenset(values))


class FieldRequirement(Struct, frozen=True):
    """One term of a field selector: a field equals a value, or does not."""

    label: str
    value: str
    equal: bool
    read: Callable[[Json], str]

    def matches(self, object_: Json) -> bool:
        """Return whether an object satisfies this term."""
        return (self.read(object_) == self.value) is self.equal


def split_field_selector(text: str) -> list[tuple[str, str, str]]:
    """Split a field selector into terms of label, operator and value.

    Raises:
        ApiError: 400, bad syntax.
    """
    terms: list[tuple[str, str, str]] = []
    for term in filter(None, text.split(",")):
        match = re.fullmatch(r"([^=!]+)(!=|==|=)(.*)", term)
        if match is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        terms.append((match[1], match[2], match[3]))
    return terms


def parse_field_selector(
    text: str, fields: Mapping[str, Callable[[Json], str]], unsupported: Callable[[str], Exception]
) -> tuple[FieldRequirement, ...]:
    """Parse a field selector, `status.phase!=Failed,spec.nodeName=a`.

    Raises:
        ApiError: 400, bad syntax or unsupported field.
    """
    terms: list[FieldRequirement] = []
    for label, sign, value in split_field_selector(text):
        if label not in fields:
            raise unsupported(label)
        terms.append(FieldRequirement(label, value, sign != "!=", fields[label]))
    return tuple(terms)


class Selection(Struct, frozen=True):
    """Label and field terms of one list or watch."""

    labels: tuple[LabelRequirement, ...] = ()
    fields: tuple[FieldRequirement, ...] = ()

    def __bool__(self) -> bool:
        """Return whether there are any terms."""
        return bool(self.labels or self.fields)

    def matches(self, object_: Json) -> bool:
        """Return whether an object is selected."""
        if self.labels:
            labels = child(object_["metadata"], "labels")
            if not all(requirement.matches(labels) for requirement in self.labels):
                return False
        return all(term.matches(object_) for term in self.fields)
