"""What can be planned for, and how to tell that the operator would refuse it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from controller.ray.api import Problem
from controller.ray.cluster import RayClusterKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from controller.ray.cluster import ClusterSettings
    from controller.runtime.kind import Kind


@dataclass(frozen=True, slots=True)
class Subject:
    """One kind of manifest.

    Attributes:
        kind: its controller.
        problem: why it would be refused, as its controller has observed it; empty if it is not.
        parts: controllers of what is made for it.
    """

    kind: Kind[Any]
    problem: Callable[[Any], str]
    parts: tuple[Kind[Any], ...] = ()

    @property
    def kinds(self) -> tuple[Kind[Any], ...]:
        """All controllers that have a say."""
        return (self.kind, *self.parts)


def subjects(settings: ClusterSettings) -> dict[str, Subject]:
    """By the name of the kind."""
    cluster = RayClusterKind(settings)
    found = (Subject(cluster, lambda seen: _problem(seen.design)),)
    return {subject.kind.primary.kind: subject for subject in found}


def _problem(design: Any) -> str:
    return str(design) if isinstance(design, Problem) else ""
