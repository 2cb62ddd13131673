"""What can be planned for, and how to tell that the operator would refuse it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from controller.command.kinds import kinds_of
from controller.ray.api import Problem
from controller.ray.job.observation import JobObservation

if TYPE_CHECKING:
    from controller.command.kinds import KindSettings
    from controller.runtime.reconcile.kind import Kind


@dataclass(frozen=True, slots=True)
class Subject:
    """One kind of manifest.

    Attributes:
        kind: its controller.
        parts: controllers of what is made for it.
    """

    kind: Kind[Any]
    parts: tuple[Kind[Any], ...] = ()

    @property
    def kinds(self) -> tuple[Kind[Any], ...]:
        """All controllers that have a say."""
        return (self.kind, *self.parts)

    def problem(self, seen: Any) -> str:
        """Why the controller that has observed the object refuses it; empty if it does not."""
        found = seen.spec if isinstance(seen, JobObservation) else seen.design
        return str(found) if isinstance(found, Problem) else ""


def subjects(settings: KindSettings) -> dict[str, Subject]:
    """By the name of the kind. Each kind's objects are made for those of the next."""
    kinds = kinds_of(settings, None)
    return {
        kind.primary.kind: Subject(kind, tuple(reversed(kinds[:number])))
        for number, kind in enumerate(kinds)
    }
