"""A cluster's observed children, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from controller.kube.objects import KubeObject, Service
    from controller.kube.resources import Resource
    from controller.ray.children.child import Child
    from controller.ray.children.drift import Drift


@dataclass(frozen=True, slots=True)
class Note:
    """A problem of a child that only a person can solve.

    Attributes:
        event: reason of its event.
        message: a sentence.
    """

    event: str
    message: str


@dataclass(frozen=True, slots=True)
class ObservedChildren:
    """The observed children with fixed names.

    Attributes:
        head_service: the service in front of the head.
        absent: children that do not exist.
        drifted: children that differ from their desired state.
        surplus: the cluster's objects that are no longer desired.
        blocked: sentences, with the remedy, about name conflicts of children that pods need.
        missing_required: sentences about missing objects that users must create before a head
            can be created.
        notes: other problems that only a person can solve; missing objects are among them.
    """

    head_service: Service | None = None
    absent: tuple[Child, ...] = ()
    drifted: tuple[Drift, ...] = ()
    surplus: tuple[tuple[Resource[Any], KubeObject], ...] = ()
    blocked: tuple[str, ...] = ()
    missing_required: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()

    @property
    def notes_in_words(self) -> str:
        """The sentences of the notes, as the condition has them."""
        return "; ".join(note.message for note in self.notes)

    @property
    def block_pods(self) -> bool:
        """True if no pod may be created for now."""
        return bool(self.blocked or self.missing_required)
