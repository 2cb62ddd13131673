"""A child: one object that a Ray kind owns besides its pods, in its desired state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from controller.kube.resources import Resource

Body: TypeAlias = dict[str, Any]

OwnedKeys: TypeAlias = Mapping[str, frozenset[str]]
"""Keys that the operator has set, by location: `annotations`, `labels`, `ports`, `spec`."""


@dataclass(frozen=True, slots=True)
class DesiredFields:
    """The desired state of an existing object, as far as it can be changed.

    Attributes:
        fields: desired fields; lists are complete, maps contain only the operator's keys.
        immutable_fields: sentences about fields that differ and cannot be changed.
    """

    fields: Mapping[str, Any]
    immutable_fields: tuple[str, ...] = ()


class OwnerConflict(Enum):
    """The reaction of a kind to an object of another owner under the child's name."""

    BLOCK = "block"  # no pods are created, because they depend on the child
    ADOPT = "adopt"  # used if it has no controller; otherwise no head is created
    REUSE = "reuse"  # used as it is
    IGNORE = "ignore"  # left alone and reported


def child_scope(resource: Resource[Any], name: str) -> str:
    """Return the scope of expectations about a child: `Service example-head-svc`."""
    return f"{resource.kind} {name}"


def all_fields(body: Mapping[str, Any], present: Any, formerly: OwnedKeys) -> DesiredFields:
    """Return all fields that a create sends."""
    del present, formerly
    metadata = body["metadata"]
    kept = {key: metadata[key] for key in ("labels", "annotations") if key in metadata}
    rest = {key: body[key] for key in body if key not in {"apiVersion", "kind", "metadata"}}
    return DesiredFields({**rest, "metadata": kept})


@dataclass(frozen=True, slots=True)
class Child:
    """One desired object.

    Attributes:
        resource: its resource.
        body: the object to create.
        on_conflict: the reaction to an object of another owner under its name.
        independent: whether pods are created without waiting for it.
        desired_fields: desired fields of an existing object, from `body`, the object and the keys
            that the operator has set on it.
        secret: returns fields that are merged into the body when it is sent and stored nowhere.
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
        """The scope of expectations about it."""
        return child_scope(self.resource, self.name)

    def __str__(self) -> str:
        """Return `Service example-head-svc`."""
        return self.scope
