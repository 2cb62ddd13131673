"""Limits of a schema on single values: types, ranges, lengths, patterns and formats."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from controller.devcluster.apiserver.jsondata import entries
from controller.devcluster.apiserver.protocol.status import (
    StatusCause,
    invalid_type,
    invalid_value,
    shown,
    unsupported_value,
)

if TYPE_CHECKING:
    from controller.devcluster.apiserver.jsondata import Json

CHECKED_FORMATS = frozenset({"", "date-time", "double", "float", "int32", "int64", "password"})
INT_OR_STRING = "int-or-string"
_BITS = {"int32": 31, "int64": 63}
_FITTING = {"number": {"number", "integer"}}
_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")


@lru_cache(maxsize=1024)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text)


@dataclass(frozen=True, slots=True)
class SchemaLimits:
    """The limits of one node of a schema; None where there is none.

    Attributes:
        type: `object`, `array`, `string` and so on, `int-or-string`, or empty for any.
        format: `date-time`, `int32` or `int64`; others are not checked.
        enum: the allowed values.
        minimum, maximum: bounds of numbers.
        above, below: whether the bounds themselves are excluded.
        min_length, max_length, pattern: constraints on strings.
        min_items, max_items: bounds of the number of a list's items.
        min_properties, max_properties: bounds of the number of a map's keys.
    """

    type: str
    format: str
    enum: list[Any]
    minimum: float | None
    maximum: float | None
    above: bool
    below: bool
    min_length: int | None
    max_length: int | None
    pattern: str
    min_items: int | None
    max_items: int | None
    min_properties: int | None
    max_properties: int | None

    @classmethod
    def of(cls, source: Json) -> SchemaLimits:
        """Return the limits of a node of a schema."""
        any_number_or_text = source.get("x-kubernetes-int-or-string")
        return cls(
            type=INT_OR_STRING if any_number_or_text else source.get("type", ""),
            format=source.get("format", ""),
            enum=entries(source, "enum"),
            minimum=source.get("minimum"),
            maximum=source.get("maximum"),
            above=bool(source.get("exclusiveMinimum")),
            below=bool(source.get("exclusiveMaximum")),
            min_length=source.get("minLength"),
            max_length=source.get("maxLength"),
            pattern=source.get("pattern", ""),
            min_items=source.get("minItems"),
            max_items=source.get("maxItems"),
            min_properties=source.get("minProperties"),
            max_properties=source.get("maxProperties"),
        )

    def check(self, value: Any, path: str) -> tuple[list[StatusCause], bool]:
        """Return the causes for a value itself, and whether its type is right."""
        expected = self._expected_instead(value)
        if expected:
            return [_wrong_type(path, value, expected), *self._check_choice(value, path)], False
        causes = self._check_choice(value, path)
        if isinstance(value, str):
            causes += self._check_text(value, path)
        elif isinstance(value, list):
            causes += _check_count(self.min_items, self.max_items, value, path, "items")
        elif isinstance(value, dict):
            causes += _check_count(
                self.min_properties, self.max_properties, value, path, "properties"
            )
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            causes += self._check_number(value, path)
        return causes, True

    def _check_choice(self, value: Any, path: str) -> list[StatusCause]:
        if not self.enum or value in self.enum:
            return []
        return [unsupported_value(path, value, self.enum)]

    def _expected_instead(self, value: Any) -> str:
        """Return the expected type if a value has another one."""
        if self.type == INT_OR_STRING:
            fits = isinstance(value, (int, str)) and not isinstance(value, bool)
            return "" if fits else "integer,string"
        if not self.type:
            return ""
        return "" if json_type(value) in _FITTING.get(self.type, {self.type}) else self.type

    def _check_text(self, value: str, path: str) -> list[StatusCause]:
        if self.max_length is not None and len(value) > self.max_length:
            message = f"Too long: may not be more than {self.max_length} bytes"
            return [StatusCause("FieldValueTooLong", path, message)]
        if self.min_length is not None and len(value) < self.min_length:
            detail = f"{path} in body should be at least {self.min_length} chars long"
            return [invalid_value(path, value, detail)]
        if self.pattern and not _pattern(self.pattern).search(value):
            return [invalid_value(path, value, f"{path} in body should match '{self.pattern}'")]
        if self.format == "date-time" and not _DATE_TIME.fullmatch(value):
            detail = f"{path} in body must be of type date-time: {shown(value)}"
            return [invalid_type(path, value, detail)]
        return []

    def _check_number(self, value: float, path: str) -> list[StatusCause]:
        details: list[str] = []
        low, high = self.minimum, self.maximum
        if low is not None and (value < low or (self.above and value == low)):
            words = "greater than" if self.above else "greater than or equal to"
            details.append(f"{path} in body should be {words} {low}")
        if high is not None and (value > high or (self.below and value == high)):
            words = "less than" if self.below else "less than or equal to"
            details.append(f"{path} in body should be {words} {high}")
        bits = _BITS.get(self.format)
        if bits and not -(2**bits) <= value < 2**bits:
            details.append(f"{path} in body must be of type {self.format}: {shown(shown(value))}")
        return [invalid_value(path, value, detail) for detail in details]


def _check_count(
    fewest: int | None, most: int | None, value: Any, path: str, what: str
) -> list[StatusCause]:
    if fewest is not None and len(value) < fewest:
        detail = f"{path} in body should have at least {fewest} {what}"
        return [invalid_value(path, len(value), detail)]
    if most is not None and len(value) > most:
        message = f"Too many: {len(value)}: must have at most {most} items"
        return [StatusCause("FieldValueTooMany", path, message)]
    return []


def json_type(value: Any) -> str:
    """Return the name of a value's type in schemas."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "integer" if value.is_integer() else "number"
    if value is None:
        return "null"
    return {str: "string", dict: "object", list: "array"}[type(value)]


def _wrong_type(path: str, value: Any, expected: str) -> StatusCause:
    found = shown(json_type(value))
    detail = f"{path} in body must be of type {expected}: {found}"
    return StatusCause("FieldValueTypeInvalid", path, f"Invalid value: {found}: {detail}")
