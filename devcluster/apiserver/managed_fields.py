"""`metadata.managedFields`: sets of fields, who owns them, and the structure that merges them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

import msgspec

from controller.apimachinery.patches import same_json
from devcluster.apiserver.builtin_types import table
from devcluster.apiserver.objects import Json, entries

_ATOMIC_TYPES = frozenset(
    {
        "ConfigMapKeySelector",
        "EndpointAddress",
        "LabelSelector",
        "LocalObjectReference",
        "NodeSelector",
        "NodeSelectorTerm",
        "ObjectFieldSelector",
        "ObjectReference",
        "ResourceFieldSelector",
        "RoleRef",
        "SecretKeySelector",
        "Subject",
        "TypedLocalObjectReference",
    }
)
_ATOMIC_FIELDS = frozenset({("ServiceSpec", "selector"), ("PodSpec", "nodeSelector")})


class Structure(msgspec.Struct, frozen=True, kw_only=True):
    """The structure of one value; by itself, of one below which everything is merged by field.

    Attributes:
        list_keys: for lists, the fields that identify an item: empty for the item itself (a set),
            or None if the list is replaced as a whole.
        is_atomic: whether a map is owned and replaced as a whole.
    """

    list_keys: tuple[str, ...] | None = None
    is_atomic: bool = False

    def field(self, name: str) -> Structure:  # noqa: ARG002  some depend on it
        """Return the structure below a field."""
        return Structure()

    def item(self) -> Structure:
        """Return the structure of list items."""
        return Structure()


class TypedStructure(Structure, frozen=True):
    """A value of a built-in type."""

    type: str

    def field(self, name: str) -> Structure:
        """Return the structure below a field."""
        known = table().get(self.type, {}).get(name)
        if known is not None:
            atomic = known.type in _ATOMIC_TYPES or (self.type, name) in _ATOMIC_FIELDS
            return TypedStructure(known.type, list_keys=known.map_keys, is_atomic=atomic)
        return TypedStructure(self.type.strip("{}") if self.type.startswith("{") else "any")

    def item(self) -> Structure:
        """Return the structure of list items."""
        type_ = self.type[1:-1] if self.type.startswith("[") else "any"
        return TypedStructure(type_, is_atomic=type_ in _ATOMIC_TYPES)


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


def invalid_list_keys(
    value: Any, structure: Structure, path: str = "", *, strict: bool
) -> Iterator[str]:
    """Yield errors for list items with duplicate keys or, if strict, without keys."""
    if isinstance(value, dict) and not structure.is_atomic:
        for name, item in cast("Json", value).items():
            yield from invalid_list_keys(
                item, structure.field(name), f"{path}.{name}", strict=strict
            )
    elif isinstance(value, list) and structure.list_keys is not None:
        yield from _ill_keyed_items(cast("list[Any]", value), structure, path, strict=strict)


def _ill_keyed_items(
    items: list[Any], structure: Structure, path: str, *, strict: bool
) -> Iterator[str]:
    keys = structure.list_keys or ()
    seen: set[str] = set()
    for index, item in enumerate(items):
        if strict and keys and isinstance(item, dict) and not any(key in item for key in keys):
            listed = ",".join(f'"{key}"' for key in keys)
            yield (
                f"{path}: element {index}: associative list with keys has an element that omits "
                f"all key fields [{listed}] (and doesn't have default values for any key fields)"
            )
            continue
        element = item_element(item, keys)
        if element in seen:
            yield f"{path}: duplicate entries for key [{element[2:]}]"
        seen.add(element)
        yield from invalid_list_keys(item, structure.item(), f"{path}[{index}]", strict=strict)


BEFORE = "before-first-apply"


@dataclass(slots=True)
class FieldOwner:
    """One entry."""

    manager: str
    operation: str
    api_version: str
    subresource: str = ""
    time: str = ""
    paths: set[Path] = field(default_factory=set[Path])

    def is_same(self, other: FieldOwner) -> bool:
        """Return whether both are entries of the same manager in the same role."""
        return (self.manager, self.operation, self.api_version, self.subresource) == (
            other.manager,
            other.operation,
            other.api_version,
            other.subresource,
        )

    def entry(self) -> Json:
        """Return the entry for `managedFields`."""
        entry: Json = {
            "manager": self.manager,
            "operation": self.operation,
            "apiVersion": self.api_version,
            "time": self.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": to_fields_v1(self.paths),
        }
        if self.subresource:
            entry["subresource"] = self.subresource
        return entry


def owners_of(object_: Json) -> list[FieldOwner]:
    """Return all entries of an object."""
    return [
        FieldOwner(
            entry.get("manager", ""),
            entry.get("operation", "Update"),
            entry.get("apiVersion", ""),
            entry.get("subresource", ""),
            entry.get("time", ""),
            from_fields_v1(entry.get("fieldsV1") or {}),
        )
        for entry in entries(object_["metadata"], "managedFields")
    ]


def write_owners(object_: Json, owners: list[FieldOwner]) -> None:
    """Store the entries of managers that still own a field, in place."""
    entries_ = [owner.entry() for owner in owners if owner.paths]
    if entries_:
        object_["metadata"]["managedFields"] = entries_
    else:
        object_["metadata"].pop("managedFields", None)


def track_update(new: Json, old: Json, writer: FieldOwner, structure: Structure) -> None:
    """Assign the fields that an ordinary write changed to its writer, in place.

    Objects that are not tracked stay untracked. A writer may change the entries themselves.
    """
    owners = owners_of(new) if entries(old["metadata"], "managedFields") else []
    owners = owners or owners_of(old)
    if not owners:
        new["metadata"].pop("managedFields", None)
        return
    before, after = leaves(old, structure), leaves(new, structure)
    changed = {
        path
        for path, value in after.items()
        if path not in before or not same_json(before[path], value)
    }
    gone = before.keys() - after.keys()
    mine = next((owner for owner in owners if owner.is_same(writer)), writer)
    for owner in owners:
        owner.paths -= gone
        if owner is not mine:
            owner.paths -= changed
    if changed:
        mine.paths |= changed
        mine.time = writer.time
    if mine is writer:
        owners.append(mine)
    write_owners(new, owners)
