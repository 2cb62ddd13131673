"""A part: one object of a cluster besides its pods, as it should be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from controller.kube.resources import Resource

Body: TypeAlias = dict[str, Any]

OwnedKeys: TypeAlias = Mapping[str, frozenset[str]]
"""Keys that we once set, by where: `annotations`, `labels`, `ports`, `spec`."""


@dataclass(frozen=True, slots=True)
class DesiredFields:
    """What an object that exists should be, as far as it can be changed.

    Attributes:
        fields: wanted fields; lists are whole, maps name only our own keys.
        immutable_fields: sentences about fields that should be different and cannot be changed.
    """

    fields: Mapping[str, Any]
    immutable_fields: tuple[str, ...] = ()


class OwnerConflict(Enum):
    """What it means that an object of the part's name belongs to somebody else."""

    BLOCK = "blocks"  # pods are not made, because they would depend on it
    ADOPT = "is adopted"  # if nobody controls it; else it blocks the head
    REUSE = "will do"
    IGNORE = "is left alone"  # and said


def child_scope(resource: Resource[Any], name: str) -> str:
    """The ledger's scope of writes to a part: `Service example-head-svc`."""
    return f"{resource.kind} {name}"


def all_fields(body: Mapping[str, Any], present: Any, formerly: OwnedKeys) -> DesiredFields:
    """Everything that was asked for when it was made."""
    del present, formerly
    metadata = body["metadata"]
    kept = {key: metadata[key] for key in ("labels", "annotations") if key in metadata}
    rest = {key: body[key] for key in body if key not in {"apiVersion", "kind", "metadata"}}
    return DesiredFields({**rest, "metadata": kept})


@dataclass(frozen=True, slots=True)
class Child:
    """One wanted object.

    Attributes:
        resource: what it is.
        body: what to create.
        on_conflict: what a namesake of somebody else means.
        independent: whether pods are made without waiting for it.
        desired_fields: what to make of one that exists already.
        secret: gives what is merged into the body when it is sent, and kept nowhere.
    """

    resource: Resource[Any]
    body: Mapping[str, Any]
    on_conflict: OwnerConflict = OwnerConflict.BLOCK
    independent: bool = False
    desired_fields: Callable[[Mapping[str, Any], Any, OwnedKeys], DesiredFields] = all_fields
    secret: Callable[[], Mapping[str, Any]] | None = field(default=None, repr=False, compare=False)

    @property
    def name(self) -> str:
        """Name of the object."""
        return self.body["metadata"]["name"]

    @property
    def scope(self) -> str:
        """The ledger's scope of writes to it."""
        return child_scope(self.resource, self.name)

    def __str__(self) -> str:
        """`Service example-head-svc`."""
        return self.scope
