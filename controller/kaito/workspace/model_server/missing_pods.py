"""Pods that the server or the job of a Workspace could not create: what its events say of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.apimachinery.job_end import job_end
from controller.kaito.api.workspace import WORKSPACES
from controller.kaito.workspace.config import Blocked
from controller.kaito.workspace.model_server.serving import serves
from controller.kube.resources import JOBS, STATEFUL_SETS
from controller.runtime.refusals import RefusalReason
from controller.runtime.refused_pods import cause_of_missing_pod, next_look, suspension_of

if TYPE_CHECKING:
    from datetime import datetime

    from controller.kaito.workspace.observation import SeenWorkload, WorkspaceObservation
    from controller.kube.objects import ObjectMeta

_ENDED: Final = frozenset({"Failed", "Succeeded"})
_TEMPLATE: Final = "inference.template"
_OF_TEMPLATE: Final = {
    RefusalReason.QUOTA_EXCEEDED: (
        f"ask for a larger quota, or change the resources in {_TEMPLATE}"
    ),
    RefusalReason.QUOTA_NEEDS_RESOURCES: f"set them in {_TEMPLATE}",
    RefusalReason.LIMIT_RANGE_VIOLATED: (
        f"change the resources in {_TEMPLATE}, or ask for another LimitRange"
    ),
    RefusalReason.POD_SECURITY_VIOLATED: f"set the securityContext in {_TEMPLATE}",
    RefusalReason.ADMISSION_DENIED: (
        f"change the pod accordingly in {_TEMPLATE}, or ask for another policy"
    ),
    RefusalReason.OBJECT_INVALID: f"correct this field in {_TEMPLATE}",
}


def lacks_pod(workload: SeenWorkload) -> ObjectMeta | None:
    """Return the metadata of the server or job that lacks a pod; None if there is no such object.

    A pod that has ended is one that it has to replace.
    """
    server, job = workload.server, workload.job
    found = server or job
    if found is None or found.metadata.terminating or serves(server):
        return None
    living = sum(pod.status.phase not in _ENDED for pod in workload.pods)
    if server is not None:
        wanted = 1 if server.spec.replicas is None else server.spec.replicas
        return server.metadata if living < wanted else None
    waits = job is not None and not (job.spec.suspend or living or job_end(job, workload.pods))
    return found.metadata if waits else None


def next_look_at(workload: SeenWorkload) -> datetime | None:
    """Return when the events of the object that lacks a pod are read; None if they are not."""
    creator = lacks_pod(workload)
    return next_look(creator, workload.failed_create) if creator is not None else None


def missing_pod(seen: WorkspaceObservation) -> Blocked | None:
    """Return why a pod could not be created; None if it is there, or if nothing is known."""
    workload = seen.workload
    job = workload.job
    if job is not None and job.spec.suspend and job_end(job, workload.pods) is None:
        return Blocked("TuningSuspended", suspension_of(job.metadata, WORKSPACES.kind))
    creator, found = lacks_pod(workload), workload.failed_create
    if creator is None or found is None or (found.unavailable and workload.pods):
        return None  # the pods that are there may tell
    resource = STATEFUL_SETS if workload.server is not None else JOBS
    cause = cause_of_missing_pod(resource, creator, found, _words(seen))
    return Blocked(*cause) if cause is not None else None


def _words(seen: WorkspaceObservation) -> dict[RefusalReason, str]:
    """Return remedies; a preset has no field for what its pods are made of."""
    spec = seen.valid_goal.spec
    if spec.inference is not None and spec.inference.preset is None:
        return _OF_TEMPLATE
    field = "tuning.preset" if spec.tuning is not None else "inference.preset"
    settled = f"{field} settles what is in the pod"
    return {
        RefusalReason.QUOTA_NEEDS_RESOURCES: (
            "give the namespace a LimitRange with defaults for them"
        ),
        RefusalReason.LIMIT_RANGE_VIOLATED: f"ask for another LimitRange: {settled}",
        RefusalReason.POD_SECURITY_VIOLATED: (
            f"ask for another level of Pod Security in this namespace: {settled}"
        ),
        RefusalReason.ADMISSION_DENIED: f"ask for another policy: {settled}",
        RefusalReason.OBJECT_INVALID: "correct the field of the Workspace that leads to this",
    }
