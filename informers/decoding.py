"""Reading of JSON before it is decoded: lines of watches, single fields, what cannot be decoded."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, cast

import msgspec
from msgspec.structs import replace

from informers.errors import Malformed
from informers.store import Undecodable, object_key

# Splits JSON that a decoder refuses, without recursion and in time linear in its length.
#
# API servers accept objects of 10,000 levels, decoders do not, and one value that cannot be decoded
# must not hide its neighbours. Only strings, brackets and commas are read, so that anything between
# them may be malformed.

_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_START = re.compile(rb"\s*([{\[])")
_KEY = re.compile(rb"(%b)\s*:\s*" % _STRING, re.DOTALL)
_NEXT_BRACKET = re.compile(rb'(?:[^"{}\[\]]++|%b)*+([{}\[\]])' % _STRING, re.DOTALL)
_NEXT_BRACKET_OR_COMMA = re.compile(rb'(?:[^"{}\[\],]++|%b)*+([{}\[\],])' % _STRING, re.DOTALL)
_OPENING = (b"{", b"[")


class Unbalanced(ValueError):  # noqa: N818  named after what is wrong
    """The text is not one object or array with all its strings and brackets closed."""


def split_json(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the raw value of each member of an object, or element of an array.

    The names of elements are empty. Names keep their escapes.

    Raises:
        Unbalanced: a string or a bracket is not closed. Children before it have been yielded.
    """
    opened = _START.match(data)
    if opened is None:
        raise Unbalanced("neither an object nor an array")
    start, closed = opened.end(), False
    while not closed:
        end = _end_of_value(data, start)
        value = data[start:end].strip()
        key = _KEY.match(value) if opened[1] == b"{" else None
        if key is not None:
            yield _text_of(key[1]), value[key.end() :]
        elif value and opened[1] == b"[":
            yield "", value
        start, closed = end + 1, data[end : end + 1] != b","
    if data[start:].strip():
        raise Unbalanced("something follows the last bracket")


def _end_of_value(data: bytes, position: int) -> int:
    """Return the position of the comma or bracket that follows the value."""
    depth = 0
    while True:
        pattern = _NEXT_BRACKET if depth else _NEXT_BRACKET_OR_COMMA
        found, position = _next(pattern, data, position)
        if found in _OPENING:
            depth += 1
        elif depth == 0:
            return position - 1
        else:
            depth -= 1


def _next(pattern: re.Pattern[bytes], data: bytes, position: int) -> tuple[bytes, int]:
    """Return the next match of the pattern and the position after it."""
    found = pattern.match(data, position)
    if found is None:
        raise Unbalanced("a string or a bracket is not closed")
    return found[1], found.end()


def _text_of(string: bytes) -> str:
    return string[1:-1].decode(errors="replace")


# Splits a stream of chunks into lines up to a maximum size.
#
# HTTP libraries limit a line to some tens of kilobytes, which a large object exceeds.


class LineSplitter:
    """Collects chunks and returns complete lines, in time linear in the bytes fed."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that `chunk` completes, without line ends and without empty lines.

        Raises:
            Malformed: a line exceeds the limit.
        """
        *lines, rest = chunk.split(b"\n")
        if lines and self._parts:
            lines[0] = self.tail() + lines[0]
        if rest:
            self._parts.append(rest)
            self._size += len(rest)
        if max(map(len, lines), default=0) > self._limit or self._size > self._limit:
            raise Malformed(f"a line of more than {self._limit} bytes")
        return [line for line in lines if line]

    def tail(self) -> bytes:
        """Remove and return the bytes after the last line end."""
        line = b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        return line


# What is known of an object that cannot be decoded: its metadata, and the reason.
#
# Nothing else of it is used: a field that is left out would look like a default, for which a
# planner might delete something. Plain data that is nested so deeply that recursive code might fail
# counts as undecodable too.

MAX_DEPTH: Final = 100
"""Maximum levels of plain data in one field. Pod templates have about 15; a Python program can
recurse through several hundred."""

NAMELESS: Final = Undecodable(key="", uid="", revision="", reason="an object without a name")
TOO_DEEP: Final = f"nested too deeply, at most {MAX_DEPTH} levels are possible"
_CONTAINERS: Final = (dict, list)
_LONGEST: Final = 1000
"""Maximum characters of a reason; keys and messages may be of any length."""


class _Identity(msgspec.Struct, rename="camel"):
    """The part of metadata without which an object cannot even be named."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


_identity = msgspec.json.Decoder(_Identity)


def describe(
    raw: bytes, error: Exception, metadata_decoder: msgspec.json.Decoder[Any]
) -> Undecodable:
    """Return what is known of an object that was refused with this error."""
    try:
        metadata = dict(split_json(raw)).get("metadata", b"")
    except Unbalanced as unbalanced:
        return Undecodable(key="", uid="", revision="", reason=f"{error} ({unbalanced})")
    found = _decoded(metadata, metadata_decoder)
    if found is None and (identity := _decoded(metadata, _identity)) is not None:
        found = metadata_decoder.type(**msgspec.structs.asdict(identity))
    if found is None or not found.name:
        return replace(NAMELESS, reason=f"{NAMELESS.reason}: {_reason(error)}")
    key = object_key(found.namespace, found.name)
    return Undecodable(key, found.uid, found.resource_version, _reason(error), metadata=found)


def _decoded(raw: bytes, decoder: msgspec.json.Decoder[Any]) -> Any:
    try:
        return decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _reason(error: Exception) -> str:
    """Return field and problem, as far as the decoder names the field."""
    if isinstance(error, RecursionError):
        return TOO_DEEP
    problem, _, field = str(error).partition(" - at `$.")
    return (f"{field.rstrip('`')}: {problem}" if field else problem)[:_LONGEST]


def too_deep(obj: Any, plain: Iterable[str]) -> ValueError | None:
    """Return an error if one of these fields of plain data exceeds `MAX_DEPTH`, else None."""
    deep = next((name for name in plain if _exceeds(getattr(obj, name), MAX_DEPTH)), "")
    return ValueError(f"{deep}: {TOO_DEEP}") if deep else None


def _exceeds(value: Any, limit: int) -> bool:
    """Return whether plain data has more levels. Visits all containers of one level at a time."""
    level: list[Any] = [value] if isinstance(value, _CONTAINERS) else []
    for _ in range(limit):
        if not level:
            return False
        below: list[Any] = []
        for each in level:
            below += cast("list[Any]", each.values() if isinstance(each, dict) else each)
        level = [child for child in below if isinstance(child, _CONTAINERS)]
    return bool(level)
