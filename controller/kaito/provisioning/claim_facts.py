"""The observed facts and the settings on which the decision about claims depends."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from controller.kaito.provisioning.claims import ObservedClaim

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.kaito.provisioning.commitment import Commitment, Slot


@dataclass(frozen=True, slots=True)
class ClaimSettings:
    """Durations of waits.

    Attributes:
        first_retry: wait after the first failure of a claim; doubled by each further one.
        longest_retry: maximum wait. A claim that was ready for this long resets the failures.
        hold: time for which ready nodes of an incomplete set of several are held.
    """

    first_retry: timedelta = timedelta(seconds=30)
    longest_retry: timedelta = timedelta(minutes=10)
    hold: timedelta = timedelta(minutes=30)

    def retry_after(self, failures: int) -> timedelta:
        """Return the wait before a claim is created again after so many consecutive failures."""
        if failures < 1:
            return timedelta()
        return min(self.first_retry * 2 ** min(failures - 1, 20), self.longest_retry)


@dataclass(frozen=True, slots=True)
class ClaimFacts:
    """The observed facts on which the decision depends.

    Attributes:
        uid: uid of the Workspace.
        target: number of nodes that the specification leads to.
        template: what claims are made from: a hash.
        commitment: the stored set, None if there is none.
        claims: the claims that belong to this Workspace, by name.
        ready_nodes: names of nodes that need no claim and are ready.
        existing_nodes: names of all nodes that need no claim.
        pending: names of claims with a write whose outcome is not known.
        absent: names of claims that a live look-up has not found.
        conflicts: names under which a claim of another owner exists.
        process: a name that no other process has.
        remembered: slots of the stored set with what their claims have shown since, by name.
    """

    uid: str
    target: int
    template: str = ""
    commitment: Commitment | None = None
    claims: Mapping[str, ObservedClaim] = field(default_factory=dict[str, ObservedClaim])
    ready_nodes: frozenset[str] = frozenset()
    existing_nodes: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()
    absent: frozenset[str] = frozenset()
    conflicts: frozenset[str] = frozenset()
    process: str = ""
    remembered: Mapping[str, Slot] = field(default_factory=dict[str, "Slot"])
