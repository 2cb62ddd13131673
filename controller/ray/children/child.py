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
class Wish:
    """What an object that exists should be, as far as it can be changed.

    Attributes:
        fields: wanted fields; lists are whole, maps name only our own keys.
        obstacles: sentences about fields that should be different and cannot be changed.
    """

    fields: Mapping[str, Any]
    obstacles: tuple[str, ...] = ()


class Stranger(Enum):
    """What it means that an object of the part's name belongs to somebody else."""

    BLOCKS = "blocks"  # pods are not made, because they would depend on it
    IS_ADOPTED = "is adopted"  # if nobody controls it; else it blocks the head
    WILL_DO = "will do"
    IS_LEFT_ALONE = "is left alone"  # and said


def part_scope(resource: Resource[Any], name: str) -> str:
    """The ledger's scope of writes to a part: `Service example-head-svc`."""
    return f"{resource.kind} {name}"


def whole(body: Mapping[str, Any], present: Any, formerly: OwnedKeys) -> Wish:
    """Everything that was asked for when it was made."""
    del present, formerly
    metadata = body["metadata"]
    kept = {key: metadata[key] for key in ("labels", "annotations") if key in metadata}
    rest = {key: body[key] for key in body if key not in {"apiVersion", "kind", "metadata"}}
    return Wish({**rest, "metadata": kept})


@dataclass(frozen=True, slots=True)
class Part:
    """One wanted object.

    Attributes:
        resource: what it is.
        body: what to create.
        stranger: what a namesake of somebody else means.
        aside: whether pods are made without waiting for it.
        wish: what to make of one that exists already.
        secret: gives what is merged into the body when it is sent, and kept nowhere.
    """

    resource: Resource[Any]
    body: Mapping[str, Any]
    stranger: Stranger = Stranger.BLOCKS
    aside: bool = False
    wish: Callable[[Mapping[str, Any], Any, OwnedKeys], Wish] = whole
    secret: Callable[[], Mapping[str, Any]] | None = field(default=None, repr=False, compare=False)

    @property
    def name(self) -> str:
        """Name of the object."""
        return self.body["metadata"]["name"]

    @property
    def scope(self) -> str:
        """The ledger's scope of writes to it."""
        return part_scope(self.resource, self.name)

    def __str__(self) -> str:
        """`Service example-head-svc`."""
        return self.scope
