"""Objects of every type of the table, with a value in every field."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from devcluster.apiserver.builtin_types import table

_INTEGERS = (1, -1, 127, 128, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63))
_SCALARS: dict[str, Callable[[int], Any]] = {
    "any": lambda n: {"a": [n, None, 0.5]},
    "bool": lambda _: True,
    "bytes": lambda n: ("AAEC", "/w==", "AP8=")[n % 3],
    "double": lambda n: (0.1, -2.5, 1e300)[n % 3],
    "int-or-string": lambda n: _INTEGERS[n % 6] if n % 2 else f"{n}%",
    "int32": lambda n: _INTEGERS[n % 6],
    "int64": lambda n: _INTEGERS[n % 8],
    "microtime": lambda n: f"20{n % 90 + 10}-02-03T04:05:06.{n % 10**6:06}Z",
    "quantity": lambda n: f"{n}Mi",
    "string": lambda n: ("x{}", "é{}", "{}" + "long" * 50)[n % 3].format(n),
    "time": lambda n: f"19{n % 90 + 10}-02-03T04:05:06Z",
}
_OTHERS = {
    "schema-or-bool": "bool",
    "schema-or-schemas": "[JSONSchemaProps]",
    "schema-or-strings": "[string]",
}
_ZEROS: dict[str, Any] = {
    "bool": False,
    "bytes": "",
    "double": 0.0,
    "int-or-string": 0,
    "int32": 0,
    "int64": 0,
    "quantity": "0",
    "string": "",
}


def filled(type_: str) -> dict[str, Any]:
    """An object of a type, as JSON; a type twice inside of itself has no fields.

    Values differ from field to field and cover lengths, signs and ends of ranges.
    """
    return _message(type_, count(1), ())


def zeros(type_: str) -> dict[str, Any]:
    """An object in which each scalar of the type is given and is zero."""
    return {
        field.name: _ZEROS[field.type] for field in table()[type_].values() if field.type in _ZEROS
    }


def _message(type_: str, numbers: Iterator[int], around: tuple[str, ...]) -> dict[str, Any]:
    if around.count(type_) == 2:
        return {}
    return {
        field.name: _value(field.type, numbers, (*around, type_))
        for field in table()[type_].values()
    }


def _value(type_: str, numbers: Iterator[int], around: tuple[str, ...]) -> Any:
    if type_ in table():
        return _message(type_, numbers, around)
    if type_[0] == "[":
        return [_value(type_[1:-1], numbers, around) for _ in range(2)]
    if type_[0] == "{":
        return {f"k{next(numbers)}": _value(type_[1:-1], numbers, around) for _ in range(2)}
    if type_.startswith("schema-or-"):
        other = next(numbers) % 2
        return _value(_OTHERS[type_] if other else "JSONSchemaProps", numbers, around)
    return _SCALARS[type_](next(numbers))
