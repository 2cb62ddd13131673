"""The table of built-in types: their fields, how patches and apply merge them, their encoding.

`fields.txt` lists the fields of each type as `name=type`. Types are scalars, names of other types,
`[T]` for lists and `{T}` for maps with string keys. After the type may follow `/key` (strategic
merge patch merges the list by that key, or as a set if the key is empty), `(keys)` (the list is a
map by these keys, or a set), `~` (a patch may retain keys), `!` (required), `+` (upstream shows
the field even if it is empty) and `*` (Go's JSON has the field even if it is zero). `#` precedes
the field's number in protobuf; `#2.4` is field 4 of the message in field 2, which JSON inlines.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

_FIELD = re.compile(
    r"(?P<name>[^=]+)=(?P<type>[^/(~!+*#]+)(?P<merge>/(?P<merge_key>\w*))?"
    r"(?P<map>\((?P<map_keys>[\w,]*)\))?~?(?P<required>!)?(?P<always>\+)?"
    r"(?P<keeps_zero>\*)?#(?P<numbers>[\d.]+)"
)

ANY = frozenset({"any", "schema-or-bool", "schema-or-schemas", "schema-or-strings"})
"""Scalar types that are any JSON; those of schemas have protobuf messages of their own."""
_LEFT_OUT_IF_ZERO = frozenset({"bool", "bytes", "double", "int32", "int64", "string"})


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a type.

    Attributes:
        name: its name.
        type: its type in the notation of the table.
        merge_key: the key by which patches merge the list; empty for a set of scalars, None for
            fields that patches replace.
        map_keys: the keys by which server-side apply merges the list; None for others.
        required: whether it must be given; empty lists are then shown as null.
        always: whether it is shown even if it was not given.
        numbers: its number in protobuf, after those of the inlined messages around it.
        keeps_zero: whether a zero is a value of its own, rather than the lack of one.
    """

    name: str
    type: str
    numbers: tuple[int, ...] = ()
    merge_key: str | None = None
    map_keys: tuple[str, ...] | None = None
    required: bool = False
    always: bool = False
    keeps_zero: bool = False

    def leaves_out(self, value: Any) -> bool:
        """Return whether upstream leaves a value of this field out of JSON, because it is zero."""
        return not value and not self.keeps_zero and self.type in _LEFT_OUT_IF_ZERO


@cache
def table() -> dict[str, dict[str, Field]]:
    """Return the fields by type and name."""
    text = (
        resources.files("controller.devcluster.apiserver.fields")
        .joinpath("fields.txt")
        .read_text(encoding="utf-8")
    )
    types: dict[str, dict[str, Field]] = {}
    current: dict[str, Field] = {}
    for word in re.sub(r"^#.*", "", text).split():
        if word.endswith(":"):
            current = types[word[:-1]] = {}
        else:
            parsed = _parse_field(word)
            current[parsed.name] = parsed
    return types


def _parse_field(text: str) -> Field:
    match = _FIELD.fullmatch(text)
    assert match is not None, text
    merge_key = match["merge_key"] if match["merge"] else None
    map_keys = tuple(filter(None, match["map_keys"].split(","))) if match["map"] else None
    if map_keys is None and merge_key is not None:
        map_keys = (merge_key,) if merge_key else ()
    return Field(
        match["name"],
        match["type"],
        tuple(map(int, match["numbers"].split("."))),
        merge_key,
        map_keys,
        required=bool(match["required"]),
        always=bool(match["always"]),
        keeps_zero=bool(match["keeps_zero"]),
    )
