"""The outcome of one write, as a value: what an answer means, and the failure to report."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from controller.kube.errors import KubeError, StatusError
from controller.runtime.kind import NAMESPACE_TERMINATING
from controller.runtime.plan import Failure

if TYPE_CHECKING:
    from controller.kube.objects import KubeObject
    from controller.runtime.plan import Write


LONGEST_QUOTE: Final = 2048
"""Maximum characters of a server's words in a failure: half a condition's message, so that what
the operator adds, the remedy above all, is not cut off."""


class WriteOutcome(Enum):
    """The outcome of a write."""

    DONE = "done"
    CONFLICT = "conflict"  # a precondition failed: plan again, and report no failure
    NAME_CONFLICT = "name_conflict"  # the name belongs to another owner: plan again
    NAMESPACE_TERMINATING = "namespace_terminating"  # nothing can be created: do not retry
    FAILED = "failed"
    UNKNOWN = "unknown"  # the response was lost: the next reconcile finds out


@dataclass(frozen=True, slots=True)
class WriteResult:
    """One write and its outcome. `obj` is the object that the server returned, if any."""

    write: Write
    outcome: WriteOutcome
    obj: KubeObject | None = None
    error: KubeError | None = None

    @property
    def failure(self) -> Failure | None:
        """The failure to report in the status; None after a success or if a new plan follows."""
        if self.error is None or self.outcome in {
            WriteOutcome.DONE,
            WriteOutcome.CONFLICT,
            WriteOutcome.NAME_CONFLICT,
        }:
            return None
        unknown = self.outcome is WriteOutcome.UNKNOWN
        return Failure(self.write, self.reason, quote(self.error), unknown=unknown)

    @property
    def reason(self) -> str:
        """The error in one word, the server's reason if there is one."""
        if self.outcome is WriteOutcome.NAMESPACE_TERMINATING:
            return NAMESPACE_TERMINATING
        if isinstance(self.error, StatusError) and self.error.status.reason:
            return self.error.status.reason
        return type(self.error).__name__


def quote(error: KubeError) -> str:
    """Return the words of an error, cut at the end if they are too long."""
    words = str(error)
    return words if len(words) <= LONGEST_QUOTE else f"{words[: LONGEST_QUOTE - 3]}..."
