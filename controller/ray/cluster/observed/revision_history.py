"""The stored templates of a cluster, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controller.ray.cluster.observed.children import Note

if TYPE_CHECKING:
    from controller.kube.objects import ControllerRevision

NOT_KEPT: Final = (
    "the present pod templates are not stored, so that `manta rollout undo` will not find them"
)


@dataclass(frozen=True, slots=True)
class RevisionHistory:
    """The revisions of a cluster.

    Attributes:
        name: name of the revision of the present templates, whether it exists or not.
        revisions: existing revisions that are not being deleted.
        refusal: reason why the present templates cannot be stored; empty if they can.
        error: the server's error when they were last to be stored; empty if it stored them.
        is_pending: whether the outcome of storing them is unknown.
    """

    name: str
    revisions: tuple[ControllerRevision, ...] = ()
    refusal: str = ""
    error: str = ""
    is_pending: bool = False

    @property
    def present(self) -> ControllerRevision | None:
        """The revision of the present templates, None if it does not exist."""
        return next((each for each in self.revisions if each.metadata.name == self.name), None)

    @property
    def is_missing(self) -> bool:
        """True if the present templates are to be stored now."""
        return self.present is None and not self.refusal and not self.is_pending

    @property
    def is_awaited(self) -> bool:
        """True if pods are replaced only after they are stored; False after that has failed."""
        return self.is_missing and not self.error

    @property
    def newest(self) -> int:
        """The highest number, 0 without revisions."""
        return max((each.revision for each in self.revisions), default=0)

    @property
    def notes(self) -> tuple[Note, ...]:
        """Notes for the user."""
        why = self.refusal or self.error
        return (not_kept(why),) if why else ()


def not_kept(why: str) -> Note:
    """Return a note that the present templates are not stored."""
    return Note("FailedToCreateControllerRevision", f"{NOT_KEPT}: {why}")
