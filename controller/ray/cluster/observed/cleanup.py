"""The observed removal of a deleted cluster's state from Redis, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from controller.kube.objects import Job
    from controller.runtime.kind import CreateError


_FINISHED: Final = frozenset({"Complete", "Failed", "FailureTarget"})


@dataclass(frozen=True, slots=True)
class Cleanup:
    """The observed cleanup of a deleted cluster.

    Attributes:
        job: the cleanup Job, if it exists.
        has_name_conflict: whether an object of that name belongs to another owner.
        refusal: reason why the last create failed.
        heads_listed: whether a live list has shown that the cache misses no head.
    """

    job: Job | None = None
    has_name_conflict: bool = False
    refusal: CreateError | None = None
    heads_listed: bool = False

    @property
    def outcome(self) -> str:
        """The result of the Job, `Complete` or `Failed`; empty while it has not ended."""
        conditions = self.job.status.conditions if self.job is not None else ()
        ended = (c.type for c in conditions if c.status == "True" and c.type in _FINISHED)
        return next(("Complete" if kind == "Complete" else "Failed" for kind in ended), "")
