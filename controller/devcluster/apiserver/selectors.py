"""Label and field selectors: parsed once, then matched against objects."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from controller.devcluster.apiserver.objects import Json, child, is_label_value
from controller.devcluster.apiserver.status import bad_request

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, slots=True)
class LabelRequirement:
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


_TOKENS = re.compile(r"\s*(?:(?P<symbol>==|!=|[!=<>(),])|(?P<word>[^\s!=<>(),]+))")
_OPERATORS = {
    "in": "in",
    "notin": "notin",
    "=": "in",
    "==": "in",
    "!=": "notin",
    ">": "gt",
    "<": "lt",
}


def parse_label_selector(text: str) -> tuple[LabelRequirement, ...]:
    """Parse a label selector.

    Raises:
        ApiError: 400, it does not follow the grammar.
    """
    return _LabelParser(text).whole()


class _UnexpectedError(Exception):
    """An unexpected token."""


class _LabelParser:
    """A recursive descent parser with upstream's error messages."""

    def __init__(self, text: str) -> None:
        self._tokens = [(match[0].strip(), bool(match["word"])) for match in _TOKENS.finditer(text)]
        self._at = 0

    def _peek(self) -> str:
        return self._tokens[self._at][0] if self._at < len(self._tokens) else ""

    @property
    def _is_word(self) -> bool:
        return self._at < len(self._tokens) and self._tokens[self._at][1]

    def _take(self) -> str:
        token = self._peek()
        self._at += 1
        return token

    def _unexpected(self, expected: str) -> _UnexpectedError:
        return _UnexpectedError(f"found '{self._peek()}', expected: {expected}")

    def whole(self) -> tuple[LabelRequirement, ...]:
        """Parse all terms.

        Raises:
            ApiError: 400.
        """
        requirements: list[LabelRequirement] = []
        while self._peek():
            if not self._is_word and self._peek() != "!":
                raise bad_request(str(self._unexpected("!, identifier, or 'end of string'")))
            try:
                requirements.append(self._requirement())
            except _UnexpectedError as error:
                raise bad_request(f"unable to parse requirement: {error}") from None
            if self._peek() not in {"", ","}:
                raise bad_request(str(self._unexpected("',' or 'end of string'")))
            if self._take() == "," and not self._is_word and self._peek() != "!":
                raise bad_request(str(self._unexpected("identifier after ','")))
        return tuple(requirements)

    def _requirement(self) -> LabelRequirement:
        if self._peek() == "!":
            self._take()
            return LabelRequirement(self._word("identifier"), "absent")
        key = self._word("identifier")
        if self._peek() in {"", ","}:
            return LabelRequirement(key, "exists")
        if self._peek() not in _OPERATORS:
            raise self._unexpected("in, notin, =, ==, !=, gt, lt")
        sign = self._take()
        values = self._set() if sign in {"in", "notin"} else self._single()
        operator = _OPERATORS[sign]
        _check_values(key, operator, values)
        return LabelRequirement(key, operator, frozenset(values))

    def _word(self, expected: str) -> str:
        if not self._is_word:
            raise self._unexpected(expected)
        return self._take()

    def _single(self) -> list[str]:
        return [""] if self._peek() in {"", ","} else [self._word("identifier")]

    def _set(self) -> list[str]:
        if self._peek() != "(":
            raise _UnexpectedError(f"found '{self._peek()}' expected: '('")
        self._take()
        values: list[str] = []
        while self._peek() != ")":
            if self._is_word:
                values.append(self._take())
                if self._peek() not in {",", ")"}:
                    raise self._unexpected("',' or ')'")
            elif self._peek() == ",":
                self._take()
                if self._peek() in {",", ")"}:
                    values.append("")
            else:
                raise self._unexpected("',', ')' or identifier")
        self._take()
        return values


def _check_values(key: str, operator: str, values: list[str]) -> None:
    if operator in {"gt", "lt"} and not re.fullmatch(r"-?\d+", values[0]):
        raise _UnexpectedError("for 'Gt', 'Lt' operators, the value must be an integer")
    for index, value in enumerate(values):
        for problem in is_label_value(value):
            raise _UnexpectedError(f'values[{index}][{key}]: Invalid value: "{value}": {problem}')


@dataclass(frozen=True, slots=True)
class FieldRequirement:
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
    """Parse a field selector.

    Args:
        text: `status.phase!=Failed,spec.nodeName=a`.
        fields: the selectable fields of this resource.
        unsupported: returns the error for another field.

    Raises:
        ApiError: 400, bad syntax or unsupported field.
    """
    terms: list[FieldRequirement] = []
    for label, sign, value in split_field_selector(text):
        if label not in fields:
            raise unsupported(label)
        terms.append(FieldRequirement(label, value, sign != "!=", fields[label]))
    return tuple(terms)


@dataclass(frozen=True, slots=True)
class Selection:
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
