"""The kept templates of a cluster, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controller.ray.cluster.observed.children import Note

if TYPE_CHECKING:
    from controller.kube.objects import ControllerRevision

NOT_KEPT: Final = (
    "the present pod templates are not kept, so that `manta rollout undo` will not find them"
)


@dataclass(frozen=True, slots=True)
class RevisionHistory:
    """The revisions of a cluster.

    Attributes:
        name: of the revision of the present templates, whether it exists or not.
        revisions: those that exist and are not being deleted.
        refusal: why the present templates cannot be kept; empty if they can.
        error: what the server answered when they were last to be kept; empty if it took them.
        is_pending: whether the outcome of keeping them is unknown.
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
        """True if the present templates are to be kept now."""
        return self.present is None and not self.refusal and not self.is_pending

    @property
    def is_awaited(self) -> bool:
        """True if pods are replaced only when they are kept: no longer once that has failed."""
        return self.is_missing and not self.error

    @property
    def newest(self) -> int:
        """The highest number, 0 without revisions."""
        return max((each.revision for each in self.revisions), default=0)

    @property
    def notes(self) -> tuple[Note, ...]:
        """Notes for a person."""
        why = self.refusal or self.error
        return (not_kept(why),) if why else ()


def not_kept(why: str) -> Note:
    """A note that the present templates are not kept."""
    return Note("FailedToCreateControllerRevision", f"{NOT_KEPT}: {why}")
