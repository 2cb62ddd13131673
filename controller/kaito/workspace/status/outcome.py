"""The progress of the workload of a Workspace: conditions besides those of nodes, and `state`."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from controller.apimachinery.job_end import job_end
from controller.kaito.provisioning.conditions import ConditionFacts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from controller.kube.objects import Job, Pod

INFERENCE_READY: Final = "InferenceReady"
JOB_STARTED: Final = "JobStarted"
WORKSPACE_SUCCEEDED: Final = "WorkspaceSucceeded"


class WorkspaceState(Enum):
    """`status.state`."""

    PENDING = "Pending"
    READY = "Ready"
    NOT_READY = "NotReady"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


def inference_conditions(
    *, is_ready: bool, reason: str = "", message: str = ""
) -> Iterator[ConditionFacts]:
    """Yield `InferenceReady` and `WorkspaceSucceeded` of a model that is served.

    Args:
        is_ready: whether all pods of the server are ready, on nodes that are.
        reason: why it gets no further, in one word; empty while it is merely waited for.
        message: the same in words. What serves may get no further too, after an edit.
    """
    if is_ready:
        yield ConditionFacts(
            INFERENCE_READY,
            is_true=True,
            reason="WorkspaceInferenceStatusSuccess",
            message=_because("Inference has been deployed successfully", message),
        )
        yield _succeeded()
        return
    yield ConditionFacts(
        INFERENCE_READY,
        is_true=False,
        reason=reason or "WorkspaceInferenceStatusPending",
        message=message or "Inference workload is not ready",
    )
    yield _pending("workspace is waiting for inference workload readiness")


def tuning_conditions(state: WorkspaceState, cause: str = "") -> Iterator[ConditionFacts]:
    """Yield `JobStarted` and `WorkspaceSucceeded` of a model that is tuned.

    Args:
        state: state of the tuning.
        cause: what keeps it from getting further, in words; empty while it is merely waited for.
    """
    started = state in {WorkspaceState.RUNNING, WorkspaceState.SUCCEEDED}
    if state is WorkspaceState.FAILED:
        reason, text = "WorkspaceTuningJobStatusFailed", _because("tuning job failed", cause)
    elif started:
        reason, text = "WorkspaceTuningJobStatusStarted", "Tuning job has started"
    else:
        reason = "WorkspaceTuningJobStatusPending"
        text = _because("Tuning job has not started", cause)
    yield ConditionFacts(JOB_STARTED, is_true=started, reason=reason, message=text)
    match state:
        case WorkspaceState.SUCCEEDED:
            yield _succeeded()
        case WorkspaceState.FAILED:
            yield ConditionFacts(
                WORKSPACE_SUCCEEDED, is_true=False, reason="workspaceFailed", message=text
            )
        case WorkspaceState.RUNNING:
            running = "workspace has not completed yet, tuning job is running"
            yield _pending(_because(running, cause))
        case _:
            yield _pending("workspace is initializing, tuning job has not started")


def _because(fact: str, cause: str) -> str:
    return f"{fact}; {cause}" if cause else fact


def tuning_state(job: Job | None, pods: Iterable[Pod]) -> WorkspaceState:
    """Return the state of a tuning.

    Kaito calls it failed as soon as one pod has failed, also if the next one succeeds (KAI-13).
    """
    if job is None:
        return WorkspaceState.PENDING
    end = job_end(job, pods)
    if end is not None:
        return WorkspaceState.SUCCEEDED if end.succeeded else WorkspaceState.FAILED
    return (
        WorkspaceState.RUNNING if job.status.active or job.status.ready else WorkspaceState.PENDING
    )


def inference_state(present: str, *, is_ready: bool) -> WorkspaceState:
    """Return `Pending` until it was ready once, and never again."""
    if is_ready:
        return WorkspaceState.READY
    return WorkspaceState.NOT_READY if present in {"Ready", "NotReady"} else WorkspaceState.PENDING


def _succeeded() -> ConditionFacts:
    return ConditionFacts(
        WORKSPACE_SUCCEEDED,
        is_true=True,
        reason="workspaceSucceeded",
        message="workspace succeeds",
    )


def _pending(message: str) -> ConditionFacts:
    return ConditionFacts(
        WORKSPACE_SUCCEEDED, is_true=False, reason="workspacePending", message=message
    )
