"""Compares two pieces of plain data leaf by leaf, with readable paths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_KEYS = ("name", "groupName", "type", "mountPath", "containerPort")
"""Members that identify the entries of a list; the first one that all entries have is used."""


class Difference(msgspec.Struct, frozen=True, omit_defaults=True):
    """One leaf: `old` is None if it is added, `new` if it is removed."""

    path: str
    old: Any = None
    new: Any = None


def differences(old: Any, new: Any, path: str = "") -> Iterator[Difference]:
    """Yield all leaves in which `new` differs from `old`; None counts as absent."""
    if old == new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        left, right = cast("dict[str, Any]", old), cast("dict[str, Any]", new)
        for name in [*left, *(name for name in right if name not in left)]:
            inner = f"{path}.{name}" if path else name
            yield from differences(left.get(name), right.get(name), inner)
    elif isinstance(old, list) and isinstance(new, list):
        yield from _in_lists(cast("list[Any]", old), cast("list[Any]", new), path)
    else:
        yield Difference(path, old, new)


def _in_lists(old: list[Any], new: list[Any], path: str) -> Iterator[Difference]:
    key = next((key for key in _KEYS if _identifies(old, key) and _identifies(new, key)), None)
    if key is None:
        yield Difference(path, old, new)
        return
    left: dict[Any, Any] = {entry[key]: entry for entry in old}
    right: dict[Any, Any] = {entry[key]: entry for entry in new}
    for name in [*left, *(name for name in right if name not in left)]:
        yield from differences(left.get(name), right.get(name), f"{path}[{name}]")


def _identifies(entries: list[Any], key: str) -> bool:
    if not all(isinstance(entry, dict) for entry in entries):
        return False
    mappings = cast("list[Mapping[str, Any]]", entries)
    names = [mapping.get(key) for mapping in mappings]
    return None not in names and len(set(map(str, names))) == len(names)
