"""Parses YAML that users put into a field as text, as KubeRay does.

User input must neither crash nor block the operator. Deeply nested YAML overflows libyaml's stack,
and anchors expand a few lines to any amount of data, so size, depth and values are limited.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Final, cast

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_VALUES: Final = 20_000
MOST_LEVELS: Final = 64

_ANYTHING_WRONG: Final = (
    yaml.YAMLError,
    ArithmeticError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)
"""Exceptions of the YAML library for a value that does not fit its tag."""


class InvalidYaml(ValueError):  # noqa: N818
    """The text is not the YAML of a mapping that JSON can express."""


def read_yaml_mapping(text: str, most_bytes: int) -> dict[str, Any]:
    """Parse the mapping; text without a value means an empty one.

    Args:
        text: YAML 1.1 with the types of Go's library.
        most_bytes: length of the text in UTF-8 beyond which it is not read.

    Raises:
        InvalidYaml: the text is not valid; the message is a predicate without a subject.
    """
    try:
        _look_over(text, most_bytes)
        value = yaml.load(text, _Loader)  # noqa: S506 - a safe loader with fewer types
    except InvalidYaml:
        raise
    except yaml.MarkedYAMLError as error:
        where = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise InvalidYaml(f"is not YAML: {error.problem}{where}") from error
    except _ANYTHING_WRONG as error:
        raise InvalidYaml("is not YAML: a value is not what its form says") from error
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidYaml("must be a mapping")
    return _Plain().mapping(cast("dict[Any, Any]", value), 0)


def _look_over(text: str, most_bytes: int) -> None:
    """Reject text that is too large to be loaded, event by event."""
    if len(text.encode()) > most_bytes:
        raise InvalidYaml(
            f"has more than {most_bytes} bytes; put what is in it into the image or working_dir"
        )
    depth = 0
    for count, event in enumerate(_events(text), 1):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        _check(count, depth)


def _events(text: str) -> Iterator[yaml.Event]:
    """The YAML events of the text; nothing is loaded."""
    return cast("Iterator[yaml.Event]", yaml.parse(text, yaml.CSafeLoader))  # pyright: ignore[reportUnknownMemberType]


def _check(count: int, depth: int) -> None:
    if depth > MOST_LEVELS:
        raise InvalidYaml(f"is nested more than {MOST_LEVELS} levels deep")
    if count > MOST_VALUES:
        raise InvalidYaml(f"has more than {MOST_VALUES} values")


class _Loader(yaml.CSafeLoader):
    """Resolves the same types as Go's YAML: no dates, no sexagesimal numbers."""


def _set_resolvers() -> None:
    gone = {f"tag:yaml.org,2002:{name}" for name in ("bool", "float", "int", "timestamp")}
    _Loader.yaml_implicit_resolvers = {
        first: [each for each in resolvers if each[0] not in gone]
        for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
    }
    for name, pattern, first in (
        ("bool", r"y|n|yes|no|true|false|on|off", "yYnNtTfFoO"),
        ("int", r"[-+]?(0b[01_]+|0x[0-9a-fA-F_]+|0o?[0-7_]+|0|[1-9][0-9_]*)", "-+0123456789"),
        ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+0123456789."),
        ("float", r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", "-+."),
    ):
        flags = re.IGNORECASE if name == "bool" else re.NOFLAG
        expression = re.compile(f"(?:{pattern})$", flags)
        for character in first:
            of_it = _Loader.yaml_implicit_resolvers.setdefault(character, [])
            of_it.append((f"tag:yaml.org,2002:{name}", expression))
    _Loader.bool_values = yaml.CSafeLoader.bool_values | {"y": True, "n": False}


_set_resolvers()


class _Plain:
    """Converts loaded YAML to JSON types and counts values, because anchors repeat them."""

    def __init__(self) -> None:
        self._count = 0

    def mapping(self, value: dict[Any, Any], depth: int) -> dict[str, Any]:
        return {self._key(key): self._value(item, depth + 1) for key, item in value.items()}

    def _value(self, value: Any, depth: int) -> Any:
        self._count += 1
        _check(self._count, depth)
        if isinstance(value, dict):
            return self.mapping(cast("dict[Any, Any]", value), depth)
        if isinstance(value, list):
            return [self._value(item, depth + 1) for item in cast("list[Any]", value)]
        if isinstance(value, float):
            return self._number(value)
        if value is None or isinstance(value, str | int):
            return value
        raise InvalidYaml(f"has a value of type {type(value).__name__}; JSON has none")

    def _number(self, value: float) -> float | int:
        if not math.isfinite(value):
            raise InvalidYaml(f"has the number {value}; JSON has none")
        return int(value) if value.is_integer() else value

    def _key(self, key: Any) -> str:
        if isinstance(key, bool):
            return str(key).lower()
        if isinstance(key, str | int):
            return str(key)
        raise InvalidYaml(f"has a key of type {type(key).__name__}; keys must be text")
