"""The revision that a workload is made from, and whether it is still current.

Kaito compares only numbers, so a history that begins anew replaces every tuning job. The hash
beside the number shows that nothing has changed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from controller.kaito.api import labels

if TYPE_CHECKING:
    from collections.abc import Callable

    from controller.kube.objects import ObjectMeta


class RevisionState(Enum):
    """The relation of a workload to the present revision."""

    PRESENT = "made from it"
    UNMARKED = "made from the same specification, or of unknown origin: only the mark is missing"
    OUTDATED = "made from another specification"


@dataclass(frozen=True, slots=True)
class Revision:
    """A revision of a Workspace.

    Attributes:
        number: number of its ControllerRevision.
        hash: hash of the specification.
        is_same: returns whether a hash is that of a specification which differs from this one only
            in the order of lists, where that has no meaning.
    """

    number: int
    hash: str
    is_same: Callable[[str], bool] = field(default=lambda _: False, repr=False, compare=False)

    @property
    def annotations(self) -> dict[str, str]:
        """The annotations of a workload that is made from it."""
        return {labels.REVISION: str(self.number), labels.HASH: self.hash}

    def state_of(self, workload: ObjectMeta) -> RevisionState:
        """Return whether a workload is made from this revision.

        A workload without a number is taken for up to date, so that taking over restarts nothing.
        """
        found = workload.annotations or {}
        number = found.get(labels.REVISION)
        if number == str(self.number):
            return RevisionState.PRESENT
        made_from = found.get(labels.HASH, "")
        if number is None or made_from == self.hash or self.is_same(made_from):
            return RevisionState.UNMARKED
        return RevisionState.OUTDATED
