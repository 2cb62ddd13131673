"""Splits JSON that a decoder refuses, without recursion and in time linear in its length.

API servers accept objects of 10,000 levels, decoders do not, and one value that cannot be decoded
must not hide its neighbours. Only strings, brackets and commas are read, so that anything between
them may be malformed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

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
