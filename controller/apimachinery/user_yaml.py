"""Parses YAML that users put into a field as text, as operators in Go do.

KubeRay reads such text with `sigs.k8s.io/yaml`, whose rules decide here: which words are numbers,
booleans or null, how keys become text, and what a merged mapping (`<<`) overrides. That library's
answers are recorded in `tests/apimachinery/yaml_reference`.

User input must neither crash nor block the operator. Anchors and merged mappings expand a few lines
to any amount of data, so size, depth and values are limited while the text is read.
"""

from __future__ import annotations

import base64
import json
import math
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, Final, cast

import yaml
from msgspec import Struct

MOST_VALUES: Final = 20_000
MOST_LEVELS: Final = 64

_WORDS: Final[dict[str, bool | float | None]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "off", "Off", "OFF"), False),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
"""Plain words that are not text. Other spellings of them, such as `tRue`, are."""
_INTEGER: Final = re.compile(
    r"[-+]?(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO][0-7]+|(?P<octal>0[0-7]+)|0|[1-9][0-9]*)"
)
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SEPARATOR: Final = re.compile(r"(?<=[0-9])_(?=[0-9])")
_CLOCK: Final = r"([01]?[0-9]|2[0-3]):[0-5]?[0-9]:[0-5]?[0-9]([.,][0-9]+)?"
_TIMESTAMP: Final = re.compile(
    r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})"
    rf"([Tt]{_CLOCK}(Z|[-+][0-9]{{2}}:[0-9]{{2}})| {_CLOCK})?"
)
_FIRST_WITH_EXPONENT: Final = 1e21
_LONGEST_INTEGER: Final = 70
"""More digits than any number of 64 bits has in any base."""
_NO_BYTE: Final = re.compile("[\udc80-\udcff]")

_TAGS: Final = {
    f"tag:yaml.org,2002:{name}": name
    for name in ("str", "bool", "int", "float", "null", "timestamp", "binary", "merge")
}
_MERGE: Final = "<<"


class InvalidYaml(ValueError):  # noqa: N818
    """The text is not the YAML of a mapping that JSON can express."""


class YamlLimits(Struct, frozen=True):
    """The maximum sizes of YAML that is read.

    Attributes:
        bytes: length of the text in UTF-8, and of all values together after anchors are expanded.
        values: number of values, after anchors are expanded.
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


def read_yaml_mapping(
    text: str, limits: YamlLimits, *, scalars_as_text: bool = False
) -> dict[str, Any]:
    """Parse the mapping of the first document; text without a value means an empty one.

    Args:
        text: YAML 1.1 with the types of Go's library.
        limits: maximum sizes.
        scalars_as_text: whether numbers and booleans stay as they are written, as where the
            reference reads into a map of strings.

    Raises:
        InvalidYaml: the text is not valid; the message is a predicate without a subject.
    """
    value = next(_documents(text, limits, scalars_as_text=scalars_as_text), None)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidYaml("must be a mapping")
    return cast("dict[str, Any]", value)


def read_yaml_documents(text: str | bytes, limits: YamlLimits) -> list[Any]:
    """Parse all documents into the types of JSON.

    Raises:
        InvalidYaml: the text is not valid; the message is a predicate without a subject.
    """
    return list(_documents(text, limits))


def _documents(
    text: str | bytes, limits: YamlLimits, *, scalars_as_text: bool = False
) -> Iterator[Any]:
    """Yield one document after the other; what follows the last one asked for is not read."""
    try:
        content = text.encode() if isinstance(text, str) else text
        limits.check_length(len(content))
        yield from _Reader(content, limits, scalars_as_text=scalars_as_text).documents()
    except yaml.MarkedYAMLError as error:
        where = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise InvalidYaml(f"is not YAML: {error.problem}{where}") from error
    except yaml.reader.ReaderError as error:
        raise InvalidYaml(f"is not YAML: {error.reason} at byte {error.position}") from error
    except UnicodeEncodeError as error:
        raise InvalidYaml(f"is not YAML: half a character at position {error.start}") from error


class _Reader:
    """Builds JSON from the events of a parser and counts values, because anchors repeat them."""

    def __init__(self, content: bytes, limits: YamlLimits, *, scalars_as_text: bool) -> None:
        self._events = cast("Iterator[Any]", yaml.parse(content, yaml.CSafeLoader))  # pyright: ignore[reportUnknownMemberType]
        self._limits = limits
        self._scalars_as_text = scalars_as_text
        self._anchors: dict[str, _Anchored] = {}
        self._count = 0
        self._length = 0

    def documents(self) -> Iterator[Any]:
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                if event.version not in {None, (1, 1)}:
                    raise _invalid("only YAML 1.1 is read; leave out the line %YAML", event)
                self._anchors = {}
                value = _json(self._node())
                next(self._events)  # The end, which shows whether something else follows.
                yield value

    def _node(self) -> Any:
        """Return the next value of JSON, or a number that JSON may write otherwise or not have."""
        around: list[_Collection] = []  # what has begun and not ended, the innermost last
        while True:
            event = next(self._events)
            if isinstance(event, yaml.CollectionEndEvent):
                ended = around.pop()
                event, value = ended.event, ended.value
                ended.anchored.value, ended.anchored.weight = value, self._count - ended.before
            elif around and around[-1].begins_merge(event):
                continue
            elif isinstance(event, yaml.CollectionStartEvent):
                if around and around[-1].expects_key:
                    raise _invalid("a key is a list or a mapping; keys must be text", event)
                anchored = _Anchored()
                if event.anchor:  # from its begin on: the same name inside of it is a later one
                    self._anchors[event.anchor] = anchored
                around.append(_Collection(event, self._count, anchored))
                self._counted(len(around) - 1)
                continue
            else:
                value = self._leaf(event, len(around))
            if not around:
                return value
            around[-1].add(value, event)

    def _leaf(self, event: Any, depth: int) -> Any:
        """Return a scalar, or what an alias stands for."""
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, depth)
        value = self._measured(self._scalar(event), depth)
        if event.anchor:
            self._anchors[event.anchor] = _Anchored(value, 1)
        return value

    def _alias(self, event: Any, depth: int) -> Any:
        anchored = self._anchors.get(event.anchor)
        if anchored is None:
            raise _invalid(f"the anchor {event.anchor!r} is not defined before its use", event)
        if not anchored.weight:
            raise _invalid(f"what the anchor {event.anchor!r} names contains itself", event)
        before = self._count
        value = self._copy(anchored.value, depth)
        # Pairs that merges have overridden count too, or merges of merges could go on for ever.
        self._count = before + anchored.weight
        self._limits.check(self._count)
        return value

    def _scalar(self, event: Any) -> bool | float | str | None:
        text, tag = event.value, event.tag
        if tag is None and not event.implicit[0]:
            return text
        value = _resolved(event)
        return text if self._scalars_as_text and isinstance(value, bool | int | float) else value

    def _copy(self, value: Any, depth: int) -> Any:
        """Return a copy of a value, all of which counts once more."""
        if isinstance(value, dict):
            self._counted(depth)
            items = cast("dict[str, Any]", value).items()
            return {self._measured(key, depth): self._copy(item, depth + 1) for key, item in items}
        if isinstance(value, list):
            self._counted(depth)
            return [self._copy(item, depth + 1) for item in cast("list[Any]", value)]
        return self._measured(value, depth)

    def _counted(self, depth: int) -> None:
        self._count += 1
        self._limits.check(self._count, depth)

    def _measured(self, value: Any, depth: int) -> Any:
        self._counted(depth)
        self._length += len(value) if isinstance(value, str) else 1
        self._limits.check_length(self._length)
        return value


@dataclass(slots=True)
class _Anchored:
    """A value with an anchor, and how many values it counts for; none until its end is read."""

    value: Any = None
    weight: int = 0


class _Collection:
    """A list or mapping that has begun. In a mapping what stands later counts, pair or merge."""

    def __init__(self, event: Any, before: int, anchored: _Anchored) -> None:
        self.event = event
        self.before = before
        self.anchored = anchored
        self._is_mapping = isinstance(event, yaml.MappingStartEvent)
        self.value: Any = {} if self._is_mapping else []
        self.expects_key = self._is_mapping
        self._key: str | None = None  # of the next value; None for one that is merged

    def begins_merge(self, event: Any) -> bool:
        """Return whether the event is `<<` in the place of a key."""
        if not (self.expects_key and _is_merge(event)):
            return False
        self.expects_key, self._key = False, None
        return True

    def add(self, value: Any, event: Any) -> None:
        """Add a key or a value, which `event` began."""
        if not self._is_mapping:
            self.value.append(_json(value))
        elif self.expects_key:
            self.expects_key, self._key = False, _key_of(value, event)
        else:
            self.expects_key = True
            if self._key is None:
                self.value |= _merged(value, event)
            else:
                self.value[self._key] = _json(value)


def _merged(value: Any, event: Any) -> dict[str, Any]:
    """Return the pairs of one mapping, or of a list, the first of which counts."""
    sources = value if isinstance(event, yaml.SequenceStartEvent) else [value]
    found: dict[str, Any] = {}
    for source in reversed(sources):
        if not isinstance(source, dict):
            raise _invalid("only mappings can be merged by <<", event)
        found |= source
    return found


def _key_of(value: Any, event: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and value >= 1 << 63:
        raise _invalid("a key is a number of more than 63 bits; put it in quotes", event)
    if isinstance(value, float):
        return _float_key(value)
    if not isinstance(value, str | int):
        raise _invalid("a key is null, a list or a mapping; keys must be text", event)
    return str(value)


def _is_merge(event: Any) -> bool:
    if not isinstance(event, yaml.ScalarEvent) or event.value != _MERGE:
        return False
    return event.implicit[0] or _TAGS.get(cast("str", event.tag)) == "merge"


def _resolved(event: Any) -> bool | float | str | None:
    """Return the value of a scalar that is plain or has a tag. Tags of others mean text."""
    text, tag = cast("str", event.value), _TAGS.get(event.tag)
    if event.tag is not None and tag in {None, "str", "merge"}:
        return text
    if tag == "binary":
        return _decoded(event)
    if tag == "timestamp":
        if not _is_timestamp(text):
            raise _misfit(tag, event)
        return text
    value = _WORDS[text] if text in _WORDS else _number(text)
    kind = "null" if value is None else type(value).__name__
    if tag == "float" and kind == "int" and _is_signed(value):
        return float(cast("int", value))
    if tag not in {None, kind}:
        raise _misfit(tag, event)
    return value


def _number(text: str) -> float | str:
    """Return the number that a word is, else the word."""
    if text[0] not in "+-.0123456789":
        return text
    plain = _SEPARATOR.sub("", text) if text[0] == "." else text.replace("_", "")
    integer = _INTEGER.fullmatch(plain) if len(plain) < _LONGEST_INTEGER else None
    if integer:
        value = int(plain, 8 if integer["octal"] else 0)
        if _is_signed(value) or (value < 1 << 64 and plain[0] not in "+-"):
            return value
    if _FLOAT.fullmatch(plain) and math.isfinite(value := float(plain)):
        return value
    return text


def _is_signed(value: Any) -> bool:
    """Return whether an integer has 64 bits with its sign."""
    return -1 << 63 <= value < 1 << 63


def _is_timestamp(text: str) -> bool:
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return False
    try:
        date(int(match[1]), int(match[2]), int(match[3]))
    except ValueError:
        return False
    return True


def _decoded(event: Any) -> str:
    """Return what base64 says, as JSON has it: a byte that is not of UTF-8 becomes U+FFFD."""
    try:
        content = base64.b64decode(event.value.replace("\r", "").replace("\n", ""), validate=True)
    except ValueError as error:
        raise _misfit("binary", event) from error
    return _NO_BYTE.sub("\ufffd", content.decode(errors="surrogateescape"))


def _json(value: Any) -> Any:
    """Return a value, a number as it comes back from the JSON that Go writes: 1.0 is 1."""
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        raise InvalidYaml(f"has the number {value}; JSON has none")
    whole = value.is_integer() and abs(value) < _FIRST_WITH_EXPONENT
    return int(Decimal(repr(value))) if whole else value


def _float_key(value: float) -> str:
    """Return a key as `strconv.FormatFloat(value, 'g', -1, 32)` writes it."""
    try:
        single: float = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        single = math.copysign(math.inf, value)
    if not math.isfinite(single):
        return ".nan" if math.isnan(single) else ".inf" if single > 0 else "-.inf"
    digits = next(n for n in range(9) if n == 8 or _rounds_to(f"{single:.{n}e}", single))
    text = f"{single:.{digits}e}"
    exponent = int(text.partition("e")[2])
    return f"{Decimal(text):f}" if -4 <= exponent < 6 else text


def _rounds_to(text: str, single: float) -> bool:
    return struct.unpack("f", struct.pack("f", float(text)))[0] == single


def _misfit(tag: str | None, event: Any) -> InvalidYaml:
    return _invalid(f"a value with the tag !!{tag} is not of that type", event)


def _invalid(problem: str, event: Any) -> InvalidYaml:
    return InvalidYaml(f"is not YAML: {problem} in line {event.start_mark.line + 1}")


# JSON and quoted strings exactly as Go encodes them, where others compare or parse the text.
#
# The command line of a RayJob's submitter equals KubeRay's, because users rely on how bash reads
# it: JSON is quoted with Go's `strconv.Quote`, in double quotes, in which bash still expands `$`.
# The hash of a Workspace equals Kaito's.

_JSON_ESCAPES: Final = str.maketrans(
    {
        "<": "\\u003c",
        ">": "\\u003e",
        "&": "\\u0026",
        "\u2028": "\\u2028",
        "\u2029": "\\u2029",
    }
)
"""Escapes of Go's `encoding/json` for characters that are special in HTML."""
_QUOTE_ESCAPES: Final = {
    '"': '\\"',
    "\\": "\\\\",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}


def go_json(value: Any, *, sort_keys: bool = True) -> str:
    """Return JSON as `json.Marshal` writes it: no spaces, non-ASCII characters unescaped.

    Args:
        value: plain data.
        sort_keys: whether to sort, as Go does for maps; it writes structs in the order of their
            fields.
    """
    text = json.dumps(value, ensure_ascii=False, sort_keys=sort_keys, separators=(",", ":"))
    return text.translate(_JSON_ESCAPES)


def go_quote(text: str) -> str:
    """Return a Go string literal as `strconv.Quote` writes it, non-printable characters escaped."""
    return f'"{"".join(map(_quoted, text))}"'


def _quoted(character: str) -> str:
    code = ord(character)
    if character in _QUOTE_ESCAPES:
        return _QUOTE_ESCAPES[character]
    if character.isprintable():
        return character
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
