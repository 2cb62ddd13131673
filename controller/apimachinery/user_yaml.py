"""Parses YAML that users put into a field as text, as operators in Go do.

User input must neither crash nor block the operator. Deeply nested YAML overflows libyaml's stack,
and anchors and merged mappings (`<<`) expand a few lines to any amount of data, so size, depth and
values are limited, before and after the expansion.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_VALUES: Final = 20_000
MOST_LEVELS: Final = 64

_MERGE: Final = "tag:yaml.org,2002:merge"
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


@dataclass(frozen=True, slots=True)
class YamlLimits:
    """The maximum sizes of YAML that is read.

    Attributes:
        bytes: length of the text in UTF-8, and of all values together after anchors are expanded.
        values: number of values, and of tokens in the text.
        levels: depth of nesting.
        remedy: advice in the message about a text that is too long.
    """

    bytes: int
    values: int = MOST_VALUES
    levels: int = MOST_LEVELS
    remedy: str = ""

    def check(self, values: int, levels: int = 0) -> None:
        """Raise InvalidYaml if the values exceed a limit."""
        if levels > self.levels:
            raise InvalidYaml(f"is nested more than {self.levels} levels deep")
        if values > self.values:
            raise InvalidYaml(f"has more than {self.values} values")

    def check_length(self, length: int) -> None:
        """Raise InvalidYaml if the text is too long."""
        if length > self.bytes:
            raise InvalidYaml(f"has more than {self.bytes} bytes{self.remedy}")


def read_yaml_mapping(text: str, limits: YamlLimits) -> dict[str, Any]:
    """Parse a mapping; text without a value means an empty one.

    Args:
        text: YAML 1.1 with the types of Go's library.
        limits: maximum sizes.

    Raises:
        InvalidYaml: the text is not valid; the message is a predicate without a subject.
    """
    documents = read_yaml_documents(text, limits)
    if len(documents) > 1:
        raise InvalidYaml("is not YAML: expected a single document in the stream")
    value = documents[0] if documents else None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidYaml("must be a mapping")
    return cast("dict[str, Any]", value)


def read_yaml_documents(text: str | bytes, limits: YamlLimits) -> list[Any]:
    """Parse all documents into the types of JSON.

    Args:
        text: YAML 1.1 with the types of Go's library.
        limits: maximum sizes.

    Raises:
        InvalidYaml: the text is not valid; the message is a predicate without a subject.
    """
    try:
        _look_over(text, limits)
        loader = _Loader(text, limits)
        try:
            return loader.documents()
        finally:
            loader.dispose()
    except InvalidYaml:
        raise
    except yaml.MarkedYAMLError as error:
        where = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise InvalidYaml(f"is not YAML: {error.problem}{where}") from error
    except yaml.reader.ReaderError as error:
        raise InvalidYaml("is not YAML: it is not text in UTF-8 or UTF-16") from error
    except _ANYTHING_WRONG as error:
        raise InvalidYaml(
            "is not YAML: a value does not have the type that its form suggests"
        ) from error


def _look_over(text: str | bytes, limits: YamlLimits) -> None:
    """Reject text that is too large to load, event by event."""
    limits.check_length(len(text.encode() if isinstance(text, str) else text))
    depth = 0
    for count, event in enumerate(_events(text), 1):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        limits.check(count, depth)


def _events(text: str | bytes) -> Iterator[yaml.Event]:
    """Yield the YAML events of the text, without loading values."""
    return cast("Iterator[yaml.Event]", yaml.parse(text, yaml.CSafeLoader))  # pyright: ignore[reportUnknownMemberType]


class _Loader(yaml.CSafeLoader):
    """Resolves the same types as Go's YAML: no dates, sexagesimal numbers or default values."""

    def __init__(self, text: str | bytes, limits: YamlLimits) -> None:
        super().__init__(text)
        self._limits = limits
        self._merged = 0

    def documents(self) -> list[Any]:
        """Return all documents in the types of JSON."""
        loader, found = cast("Any", self), list[Any]()
        plain = _Plain(self._limits)
        while loader.check_data():
            found.append(plain.value(loader.get_data(), 0))
        return found

    def flatten_mapping(self, node: Any) -> None:
        """Replace each key `<<` by the pairs of its mapping, before the mapping's own pairs.

        If a list has several mappings, the first one with a key counts. Pairs are counted before
        they are copied, because each mapping may itself merge others.
        """
        sources = [value for key, value in node.value if key.tag == _MERGE]
        node.value = [pair for pair in node.value if pair[0].tag != _MERGE]
        merged: list[Any] = []
        for source in sources:
            for each in reversed(source.value) if _is_list(source) else [source]:
                if not isinstance(each, yaml.MappingNode):
                    raise InvalidYaml("is not YAML: only mappings can be merged by <<")
                self.flatten_mapping(each)
                self._merged += len(each.value)
                self._limits.check(self._merged)
                merged += each.value
        node.value = merged + node.value


def _set_resolvers() -> None:
    gone = {f"tag:yaml.org,2002:{name}" for name in ("bool", "float", "int", "timestamp", "value")}
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


def _is_list(node: Any) -> bool:
    return isinstance(node, yaml.SequenceNode)


class _Plain:
    """Converts loaded YAML to JSON types and counts values, because anchors repeat them."""

    def __init__(self, limits: YamlLimits) -> None:
        self._limits = limits
        self._count = 0
        self._length = 0

    def value(self, value: Any, depth: int) -> Any:
        self._count += 1
        self._limits.check(self._count, depth)
        if isinstance(value, dict):
            items = cast("dict[Any, Any]", value).items()
            return {self._key(key): self.value(item, depth + 1) for key, item in items}
        if isinstance(value, list):
            return [self.value(item, depth + 1) for item in cast("list[Any]", value)]
        if isinstance(value, float):
            return self._number(value)
        if value is None or isinstance(value, str | int):
            return self._measured(value)
        raise InvalidYaml(f"has a value of type {type(value).__name__}; JSON has none")

    def _number(self, value: float) -> float | int:
        if not math.isfinite(value):
            raise InvalidYaml(f"has the number {value}; JSON has none")
        return int(value) if value.is_integer() else value

    def _key(self, key: Any) -> str:
        if isinstance(key, bool):
            return str(key).lower()
        if isinstance(key, str | int):
            return str(self._measured(key))
        raise InvalidYaml(f"has a key of type {type(key).__name__}; keys must be text")

    def _measured(self, value: str | int | None) -> str | int | None:
        self._length += len(str(value))
        self._limits.check_length(self._length)
        return value
