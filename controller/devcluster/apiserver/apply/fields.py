"""Sets of fields: the leaves of an object, and their `fieldsV1` form.

A path is a tuple of elements in upstream's notation: `f:name` for fields, `k:{...}` for items of
keyed lists, `v:...` for items of sets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, cast

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from controller.devcluster.apiserver.apply.structure import Structure
    from controller.devcluster.apiserver.jsondata import Json

Path: TypeAlias = tuple[str, ...]

_KEY_DEFAULTS = {"protocol": "TCP"}
"""Keys that may be left out of an applied list item."""
_UNOWNED = {
    ("f:apiVersion",),
    ("f:kind",),
    *(
        ("f:metadata", f"f:{name}")
        for name in (
            "name",
            "namespace",
            "uid",
            "resourceVersion",
            "generation",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "selfLink",
            "managedFields",
            "generateName",
        )
    ),
}


def leaves(object_: Json, structure: Structure) -> dict[Path, Any]:
    """Return the paths of an object that can be owned: leaves, and items of keyed lists."""
    found = _leaves(object_, structure, ())
    return {
        path: value
        for path, value in found
        if path[:2] not in _UNOWNED and path[:1] not in _UNOWNED
    }


def _leaves(value: Any, structure: Structure, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict) and value and not structure.is_atomic:
        for name, item in cast("Json", value).items():
            yield from _leaves(item, structure.field(name), (*path, f"f:{name}"))
    elif isinstance(value, list) and structure.list_keys is not None:
        for item in cast("list[Any]", value):
            element = item_element(item, structure.list_keys)
            yield (*path, element), None
            if isinstance(item, dict):
                yield from _leaves(item, structure.item(), (*path, element))
    else:
        yield path, value


def item_element(item: Any, keys: tuple[str, ...]) -> str:
    """Return the path element of a list item."""
    if keys and isinstance(item, dict):
        entry = cast("Json", item)
        known = _KEY_DEFAULTS | entry
        named = {key: known[key] for key in sorted(keys) if key in known}
        return "k:" + msgspec.json.encode(named).decode()
    return "v:" + msgspec.json.encode(item).decode()


def to_fields_v1(paths: Iterable[Path]) -> Json:
    """Return the nested form; `.` marks a path that is owned itself besides its children."""
    owned = set(paths)
    root: Json = {}
    for path in sorted(owned):
        node = root
        for depth, element in enumerate(path):
            if depth and path[:depth] in owned:
                node.setdefault(".", {})
            node = node.setdefault(element, {})
    return root


def from_fields_v1(fields: Json) -> set[Path]:
    """Return the paths of a nested form."""
    return set(_paths(fields, ()))


def _paths(node: Json, path: Path) -> Iterator[Path]:
    if not node and path:
        yield path
    for element, below in node.items():
        if element == ".":
            yield path
        else:
            yield from _paths(below, (*path, element))


def shown_path(path: Path) -> str:
    """Return a path as conflict messages write it."""
    return "".join(
        f".{element[2:]}" if element.startswith("f:") else _shown_item(element) for element in path
    )


def _shown_item(element: str) -> str:
    if element.startswith("v:"):
        return f"[={element[2:]}]"
    named: Json = msgspec.json.decode(element[2:])
    return (
        "["
        + ",".join(f"{key}={msgspec.json.encode(value).decode()}" for key, value in named.items())
        + "]"
    )
