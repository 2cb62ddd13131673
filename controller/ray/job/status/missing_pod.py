"""Why the Job that submits has no pod: what its events say, and what a user can do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.kube.resources import JOBS
from controller.ray.api.rayjob import RAYJOBS
from controller.ray.job.states import State
from controller.ray.job.submitter.container import SUBMITTER
from controller.ray.job.submitter.state import submitting_container
from controller.runtime import refused_pods
from controller.runtime.refusals import RefusalReason
from controller.runtime.refused_pods import events_of, next_look, suspension_of

if TYPE_CHECKING:
    from controller.kube.objects import Job
    from controller.ray.job.observation import JobObservation
    from controller.ray.job.state_machine.deadlines import Deadlines
    from controller.runtime.plan import FailedCreates


def events_to_read(seen: JobObservation, deadlines: Deadlines) -> tuple[FailedCreates, ...]:
    """Return the lookup of the Job's events, if it has had no pod for a while."""
    job = seen.submitter_job
    if job is None or seen.state is not State.RUNNING or not seen.submitter.unstarted:
        return ()
    if job.spec.suspend or not deadlines.reached(next_look(job.metadata, seen.failed_create)):
        return ()
    return (events_of(job.metadata, deadlines.now),)


def cause_of_missing_pod(seen: JobObservation) -> tuple[str, str] | None:
    """Return reason and sentence about a Job without a pod; None if nothing is known yet."""
    job = seen.submitter_job
    if job is None or not seen.submitter.unstarted:
        return None
    if job.spec.suspend:
        return "SubmitterSuspended", suspension_of(job.metadata, RAYJOBS.kind)
    words = _words(seen, job)
    cause = refused_pods.cause_of_missing_pod(JOBS, job.metadata, seen.failed_create, words)
    return cause and (cause[0], f"submitter: {cause[1]}")


def _words(seen: JobObservation, job: Job) -> dict[RefusalReason, str]:
    """Return remedies that name the field in which the submitter is described."""
    field = "spec.submitterPodTemplate"
    if seen.spec.submitter_pod_template is not None:
        where = f"of container {submitting_container(job)} in {field}"
    else:
        where = f"of the submitter: give {field} a container {SUBMITTER} that has them"
    resources = f"change the resources {where}"
    return {
        RefusalReason.LIMIT_RANGE_VIOLATED: f"{resources}, or ask for another LimitRange",
        RefusalReason.QUOTA_EXCEEDED: f"ask for a larger quota, or {resources}",
        RefusalReason.QUOTA_NEEDS_RESOURCES: f"set the resources {where}",
        RefusalReason.POD_SECURITY_VIOLATED: f"set the securityContext {where}",
        RefusalReason.OBJECT_INVALID: f"correct this field in {field}",
        RefusalReason.ADMISSION_DENIED: (
            f"change the pod accordingly in {field}, or ask for another policy"
        ),
    }
