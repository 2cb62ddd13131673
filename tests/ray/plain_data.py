"""Walks through manifests and changes them anywhere, to try odd values in every place."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any


def paths(
    node: Any, above: tuple[Any, ...] = (), *, without: str = ""
) -> Iterator[tuple[Any, ...]]:
    """The path of `node` and those of everything in it; members of that name are skipped."""
    yield above
    members = node.items() if isinstance(node, dict) else []
    members = enumerate(node) if isinstance(node, list) else members
    for name, member in members:
        if name != without:
            yield from paths(member, (*above, name), without=without)


def with_value(raw: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """A copy with another value at that path."""
    changed = copy.deepcopy(raw)
    node: Any = changed
    for name in path[:-1]:
        node = node[name]
    node[path[-1]] = value
    return changed
