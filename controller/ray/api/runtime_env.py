"""Ray's runtime environment as users write it in a RayJob: YAML, read the way KubeRay reads it.

What a user wrote must neither bring the operator down nor keep it busy: nested too deeply it
would end libyaml's process, and anchors let a few lines stand for any amount of data.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Final, cast

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_BYTES: Final = 128 * 1024
"""Linux starts no command with a longer argument, and the submitter gets it as one."""
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
"""What the YAML library raises for a value that is not what its tag promises."""


class InvalidRuntimeEnv(ValueError):  # noqa: N818 - reads as what it says
    """The text is not the YAML of a mapping that JSON could hold as well."""


def read_runtime_env(text: str) -> dict[str, Any]:
    """The mapping that the text stands for; text without a value stands for an empty one.

    Raises:
        InvalidRuntimeEnv: it is none; the message says why in half a sentence.
    """
    try:
        _look_over(text)
        value = yaml.load(text, _Loader)  # noqa: S506 - a safe loader with fewer types
    except InvalidRuntimeEnv:
        raise
    except yaml.MarkedYAMLError as error:
        where = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise InvalidRuntimeEnv(f"is not YAML: {error.problem}{where}") from error
    except _ANYTHING_WRONG as error:
        raise InvalidRuntimeEnv("is not YAML: a value is not what its form says") from error
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidRuntimeEnv("must be a mapping such as `pip: [requests]`")
    return _Plain().mapping(cast("dict[Any, Any]", value), 0)


def _look_over(text: str) -> None:
    """Refuse what is too large to be loaded, by looking at its parts one after the other."""
    if len(text.encode()) > MOST_BYTES:
        raise InvalidRuntimeEnv(
            f"has more than {MOST_BYTES} bytes; put what is in it into the image or working_dir"
        )
    depth = 0
    for count, event in enumerate(_events(text), 1):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        _check(count, depth)


def _events(text: str) -> Iterator[yaml.Event]:
    """The parts of the text, without loading anything."""
    return cast("Iterator[yaml.Event]", yaml.parse(text, yaml.CSafeLoader))  # pyright: ignore[reportUnknownMemberType]


def _check(count: int, depth: int) -> None:
    if depth > MOST_LEVELS:
        raise InvalidRuntimeEnv(f"is nested more than {MOST_LEVELS} levels deep")
    if count > MOST_VALUES:
        raise InvalidRuntimeEnv(f"has more than {MOST_VALUES} values")


class _Loader(yaml.CSafeLoader):
    """Knows the types that Go's YAML knows: no dates, no numbers to the base of sixty."""


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
    """Makes JSON's types of what YAML gave, counting: anchors repeat what stands there once."""

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
        raise InvalidRuntimeEnv(f"has a value of type {type(value).__name__}; JSON has none")

    def _number(self, value: float) -> float | int:
        if not math.isfinite(value):
            raise InvalidRuntimeEnv(f"has the number {value}; JSON has none")
        return int(value) if value.is_integer() else value

    def _key(self, key: Any) -> str:
        if isinstance(key, bool):
            return str(key).lower()
        if isinstance(key, str | int):
            return str(key)
        raise InvalidRuntimeEnv(f"has a key of type {type(key).__name__}; keys must be text")
