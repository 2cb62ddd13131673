"""The observed removal of a deleted cluster's state from Redis, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controller.apimachinery.conditions import job_end

if TYPE_CHECKING:
    from controller.apimachinery.conditions import JobEnd
    from controller.kube.objects import Job, Pod
    from controller.runtime.kind import CreateError, FailedCreate


@dataclass(frozen=True, slots=True)
class Cleanup:
    """The observed cleanup of a deleted cluster.

    Attributes:
        job: the cleanup Job, if it exists.
        pods: its pods.
        has_name_conflict: whether an object of that name belongs to another owner.
        refusal: reason why the last create failed.
        failed_create: what the events of the Job say about a pod that was refused.
        heads_listed: whether a live list has shown that the cache misses no head.
    """

    job: Job | None = None
    pods: tuple[Pod, ...] = ()
    has_name_conflict: bool = False
    refusal: CreateError | None = None
    failed_create: FailedCreate | None = None
    heads_listed: bool = False

    @property
    def lacks_pod(self) -> bool:
        """Whether the Job should have had a pod and has had none; it gets one only."""
        job = self.job
        if job is None or job.metadata.terminating:
            return False
        return not (job.spec.suspend or self.pods or job.status.failed)

    @property
    def outcome(self) -> str:
        """The result of the Job, `Complete` or `Failed`; empty while it has not ended."""
        end = self.end
        return "" if end is None else "Complete" if end.succeeded else "Failed"

    @property
    def end(self) -> JobEnd | None:
        """How the Job has ended, None while it has not."""
        return job_end(self.job, self.pods) if self.job is not None else None
