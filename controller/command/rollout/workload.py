"""The object of a rollout command, `raycluster/NAME`, and its kind."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from controller.command.rollout.raycluster import RayClusterRollout
from controller.command.rollout.rayclusterfleet import RayClusterFleetRollout
from controller.kube.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from controller.command.rollout.progress import RolloutProgress
    from controller.kube.resources import Resource

Json = dict[str, Any]


class RolloutKind(Protocol):
    """A kind that is rolled out. Objects are plain data."""

    @property
    def resource(self) -> Resource[Any]:
        """Its resource."""
        ...

    def progress(self, obj: Json) -> RolloutProgress:
        """Read the progress of the rollout of an object.

        Raises:
            RolloutError: it has no rolling updates.
        """
        ...

    def is_paused(self, obj: Json) -> bool:
        """Return whether its rollout is paused.

        Raises:
            RolloutError: it has no rolling updates.
        """
        ...

    def with_pause(self, obj: Json, *, paused: bool) -> Json:
        """Return the object with its rollout paused, or not.

        Raises:
            RolloutError: it has no rolling updates.
        """
        ...

    def templates_of(self, obj: Json) -> Json:
        """Return the part of it that its revisions keep, `data.spec`."""
        ...

    def with_templates(self, obj: Json, templates: Json) -> Json:
        """Return the object with what a revision has kept."""
        ...

    def left_alone(self, obj: Json, templates: Json) -> Sequence[str]:
        """Return sentences about parts that a restored revision leaves unchanged."""
        ...

    def images_of(self, templates: Json) -> Sequence[str]:
        """Return the images of Ray in a revision, each once."""
        ...


KINDS: Final[Mapping[str, RolloutKind]] = {
    each.resource.kind.lower(): each for each in (RayClusterRollout(), RayClusterFleetRollout())
}
"""Kinds by their names on the command line."""


_PART: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*")
"""A type or a name: no part of a path or of a query, which would lead to another object."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One object on the command line.

    Attributes:
        kind: what it is.
        namespace: where it is.
        name: its name.
    """

    kind: RolloutKind
    namespace: str
    name: str

    def __str__(self) -> str:
        """Return `raycluster.ray.io/NAME`, as kubectl prints it."""
        resource = self.kind.resource
        return f"{resource.kind.lower()}.{resource.group}/{self.name}"

    @property
    def argument(self) -> str:
        """`raycluster/NAME`, with its namespace, as other commands take it."""
        return f"{self.kind.resource.kind.lower()}/{self.name} -n {self.namespace}"


def parse_workload(words: Sequence[str], namespace: str) -> Workload:
    """Read `TYPE/NAME` or `TYPE NAME`.

    Raises:
        ConfigurationError: it is something else, or there is no such type.
    """
    parts = words[0].split("/") if len(words) == 1 else list(words)
    if len(parts) != 2 or not all(map(_PART.fullmatch, parts)):
        raise ConfigurationError(
            f"{' '.join(words)!r} names no object; write raycluster/NAME, for example "
            "raycluster/example"
        )
    type_, name = parts
    kind = _kind(type_)
    if kind is None:
        raise ConfigurationError(f"{type_!r} cannot be rolled out; {' and '.join(KINDS)} can")
    return Workload(kind, namespace, name)


def _kind(type_: str) -> RolloutKind | None:
    """Return the kind of `RayCluster`, `rayclusters`, `rayclusters.ray.io` and the like."""
    word, _, group = type_.lower().partition(".")
    kind = KINDS.get(word) or KINDS.get(word.removesuffix("s"))
    if kind is None or group.removeprefix(f"{kind.resource.version}.") in {"", kind.resource.group}:
        return kind
    return None
