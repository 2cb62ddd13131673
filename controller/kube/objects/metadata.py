"""Metadata, conditions and lists: what objects of all kinds have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec


class View(msgspec.Struct, frozen=True, rename="camel", gc=False, kw_only=True):
    """A leaf of a partial view: immutable, unknown fields ignored, every field optional."""


class OwnerReference(View, frozen=True):
    """`metadata.ownerReferences[]`."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(View, frozen=True):
    """`metadata`, without `managedFields`."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """`namespace/name`, or `name` for cluster-scoped objects."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def terminating(self) -> bool:
        """True if the object has a deletion timestamp and still exists."""
        return self.deletion_timestamp is not None

    @property
    def controller(self) -> OwnerReference | None:
        """The owner reference with `controller: true`, if there is one."""
        for reference in self.owner_references:
            if reference.controller:
                return reference
        return None


class KubeObject(View, frozen=True):
    """The fields of every object. Used directly where nothing else is read."""

    metadata: ObjectMeta = ObjectMeta()


T = TypeVar("T", bound=KubeObject)


@dataclass(frozen=True, slots=True)
class ObjectList(Generic[T]):
    """One page of a list.

    Attributes:
        items: the objects, in the server's order.
        resource_version: revision of the snapshot that the page belongs to.
        continue_: token for the next page, empty on the last page.
    """

    items: list[T]
    resource_version: str
    continue_: str


class Condition(View, frozen=True):
    """`status.conditions[]` of most kinds."""

    type: str = ""
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    observed_generation: int | None = None
