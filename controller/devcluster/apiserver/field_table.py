"""The table of built-in types: which fields each has, and how patches and apply merge them.

`fields.txt` lists the fields of each type as `name=type`. Types are scalars, names of other types,
`[T]` for lists and `{T}` for maps with string keys. After the type may follow `/key` (strategic
merge patch merges the list by that key, or as a set if the key is empty), `(keys)` (the list is a
map by these keys, or a set), `~` (a patch may retain keys), `!` (required) and `+` (upstream shows
the field even if it is empty).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib import resources

_FIELD = re.compile(
    r"(?P<name>[^=]+)=(?P<type>[^/(~!+]+)(?P<merge>/(?P<merge_key>\w*))?"
    r"(?P<map>\((?P<map_keys>[\w,]*)\))?(?P<retain>~)?(?P<required>!)?(?P<always>\+)?"
)


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a type.

    Attributes:
        name: its name.
        type: its type in the notation of the table.
        merge_key: the key by which patches merge the list; empty for a set of scalars, None for
            fields that patches replace.
        map_keys: the keys by which server-side apply merges the list; None for others.
        retains_keys: whether a patch may say which keys to keep.
        required: whether it must be given; empty lists are then shown as null.
        always: whether it is shown even if it was not given.
    """

    name: str
    type: str
    merge_key: str | None = None
    map_keys: tuple[str, ...] | None = None
    retains_keys: bool = False
    required: bool = False
    always: bool = False


@cache
def table() -> dict[str, dict[str, Field]]:
    """Fields by type and name."""
    text = (
        resources.files("controller.devcluster.apiserver")
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
        merge_key,
        map_keys,
        retains_keys=bool(match["retain"]),
        required=bool(match["required"]),
        always=bool(match["always"]),
    )
