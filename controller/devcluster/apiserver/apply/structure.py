"""The merging of an object's lists and maps, for built-in kinds from the table of types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from controller.devcluster.apiserver.fields.field_table import table

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


class Structure(Protocol):
    """The structure of one value.

    Attributes:
        list_keys: for lists, the fields that identify an item: empty for the item itself (a set),
            or None if the list is replaced as a whole.
        is_atomic: whether a map is owned and replaced as a whole.
    """

    @property
    def is_atomic(self) -> bool:
        """True if a map is replaced as a whole."""
        ...

    @property
    def list_keys(self) -> tuple[str, ...] | None:
        """The keys that identify the items of a list."""
        ...

    def field(self, name: str) -> Structure:
        """Return the structure below a field."""
        ...

    def item(self) -> Structure:
        """Return the structure of list items."""
        ...


@dataclass(frozen=True, slots=True)
class TypedStructure:
    """A value of a built-in type."""

    type: str
    list_keys: tuple[str, ...] | None = None
    is_atomic: bool = False

    def field(self, name: str) -> Structure:
        """Return the structure below a field."""
        known = table().get(self.type, {}).get(name)
        if known is not None:
            atomic = known.type in _ATOMIC_TYPES or (self.type, name) in _ATOMIC_FIELDS
            return TypedStructure(known.type, known.map_keys, atomic)
        return TypedStructure(self.type.strip("{}") if self.type.startswith("{") else "any")

    def item(self) -> Structure:
        """Return the structure of list items."""
        type_ = self.type[1:-1] if self.type.startswith("[") else "any"
        return TypedStructure(type_, is_atomic=type_ in _ATOMIC_TYPES)
