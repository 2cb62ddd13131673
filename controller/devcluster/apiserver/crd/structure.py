"""The merging of a custom resource's lists and maps, from its schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controller.devcluster.apiserver.apply.structure import TypedStructure

if TYPE_CHECKING:
    from controller.devcluster.apiserver.apply.structure import Structure
    from controller.devcluster.apiserver.crd.schema import Schema


@dataclass(frozen=True, slots=True)
class SchemaStructure:
    """A value of a custom resource; without a schema everything below is merged by field."""

    schema: Schema | None

    @property
    def list_keys(self) -> tuple[str, ...] | None:
        """The keys that identify the items of a list."""
        return self.schema.item_keys if self.schema else None

    @property
    def is_atomic(self) -> bool:
        """True if a map is replaced as a whole."""
        return self.schema is not None and self.schema.is_atomic_map

    def field(self, name: str) -> Structure:
        """Return the structure below a field; metadata is as in built-in kinds."""
        return SchemaStructure(self.schema.field(name) if self.schema else None)

    def item(self) -> Structure:
        """Return the structure of list items."""
        return SchemaStructure(self.schema.items if self.schema else None)


@dataclass(frozen=True, slots=True)
class ObjectStructure:
    """A whole object: its metadata is typed, the rest follows its kind."""

    rest: Structure
    list_keys: tuple[str, ...] | None = None
    is_atomic: bool = False

    def field(self, name: str) -> Structure:
        """Return the structure below a field."""
        return TypedStructure("ObjectMeta") if name == "metadata" else self.rest.field(name)

    def item(self) -> Structure:
        """Raise NotImplementedError: objects are not lists."""
        raise NotImplementedError
