"""The status of a Workspace: conditions, resources, and what it says while it is deleted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from enum import Enum
from typing import Any, Final

from msgspec.structs import replace

from controller.apimachinery.conditions import (
    OBSERVATION_IN_DOUBT,
    READY,
    job_end,
    stored_message,
    verdicts,
)
from controller.apimachinery.custom_object import conditions_of
from controller.apimachinery.validation import Problem
from controller.kaito.api.inference_pool import set_pool_condition
from controller.kaito.api.karpenter import NODE_CLAIMS, NODE_POOLS, NODES
from controller.kaito.api.labels import streaming_annotations
from controller.kaito.api.status import (
    BENCHMARK_COMPLETED,
    INFERENCE_READY,
    NODE_CLAIM_READY,
    NODES_READY,
    RESOURCE_READY,
    WORKSPACE_SUCCEEDED,
    Cause,
    ConditionFacts,
    conditions_before,
    deletion_status,
    failure_event,
    failure_reason,
    what_failed,
)
from controller.kaito.provisioning.decision import claim_condition
from controller.kaito.provisioning.pool_decision import pool_condition
from controller.kaito.provisioning.pools import is_replacing
from controller.kaito.workspace.edits import SCOPE as HISTORY_SCOPE
from controller.kaito.workspace.model_server import (
    benchmark_condition,
    job_cause,
    performance,
    server_cause,
)
from controller.kaito.workspace.nodes import NodeProgress, progress_of
from controller.kaito.workspace.observation import WorkspaceObservation
from controller.kaito.workspace.workload import SCOPE as WORKLOAD_SCOPE
from controller.kaito.workspace.workload import (
    WorkloadStep,
    missing_pod,
    missing_services,
    serves,
    workload_step,
)
from controller.kube.objects import Job, Pod
from controller.runtime.definitions import set_fields_known, unknown_field_events
from controller.runtime.plan import Create, Event, Failure, StatusPatch, verb_of

JOB_STARTED: Final = "JobStarted"
_SUCCEEDED: Final = ConditionFacts(
    WORKSPACE_SUCCEEDED, True, "workspaceSucceeded", "workspace succeeds"
)


class WorkspaceState(Enum):
    """`status.state`."""

    PENDING = "Pending"
    READY = "Ready"
    NOT_READY = "NotReady"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


def inference_conditions(state: WorkspaceState, cause: Cause) -> Iterator[ConditionFacts]:
    """Yield `InferenceReady` and `WorkspaceSucceeded` of a model that is served.

    What serves may get no further too, after an edit.
    """
    if state is WorkspaceState.READY:
        text = _because("Inference has been deployed successfully", cause.message)
        yield ConditionFacts(INFERENCE_READY, True, "WorkspaceInferenceStatusSuccess", text)
        yield _SUCCEEDED
        return
    reason = cause.reason or "WorkspaceInferenceStatusPending"
    text = cause.message or "Inference workload is not ready"
    yield ConditionFacts(INFERENCE_READY, False, reason, text)
    yield _pending("workspace is waiting for inference workload readiness")


def tuning_conditions(state: WorkspaceState, cause: Cause) -> Iterator[ConditionFacts]:
    """Yield `JobStarted` and `WorkspaceSucceeded` of a model that is tuned."""
    started = state in {WorkspaceState.RUNNING, WorkspaceState.SUCCEEDED}
    if state is WorkspaceState.FAILED:
        reason, text = (
            "WorkspaceTuningJobStatusFailed",
            _because("tuning job failed", cause.message),
        )
    elif started:
        reason, text = "WorkspaceTuningJobStatusStarted", "Tuning job has started"
    else:
        reason = "WorkspaceTuningJobStatusPending"
        text = _because("Tuning job has not started", cause.message)
    yield ConditionFacts(JOB_STARTED, started, reason, text)
    match state:
        case WorkspaceState.SUCCEEDED:
            yield _SUCCEEDED
        case WorkspaceState.FAILED:
            yield ConditionFacts(WORKSPACE_SUCCEEDED, False, "workspaceFailed", text)
        case WorkspaceState.RUNNING:
            running = "workspace has not completed yet, tuning job is running"
            yield _pending(_because(running, cause.message))
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
    has_begun = job.status.active or job.status.ready
    return WorkspaceState.RUNNING if has_begun else WorkspaceState.PENDING


def _pending(message: str) -> ConditionFacts:
    return ConditionFacts(WORKSPACE_SUCCEEDED, False, "workspacePending", message)


_NOT_SERVED: Final = (
    "the API server has no {}: install the definitions of the provisioner, or run the operator "
    "with nodes of your own"
)


def resource_conditions(
    progress: NodeProgress, failures: tuple[Failure, ...]
) -> tuple[ConditionFacts, ...]:
    """Return `NodeClaimReady` if nodes are claimed, `NodesReady`, and `ResourceReady` for both."""
    unknown = progress.unknown
    if unknown is not None:
        parts = (ConditionFacts(NODES_READY, False, unknown.reason, unknown.message),)
    else:
        parts = (*_claims(progress, failures), _nodes(progress, failures))
    return (*parts, resource_condition(*parts))


def resource_condition(*parts: ConditionFacts) -> ConditionFacts:
    """Return `ResourceReady`: true if all parts are, else the first that is not."""
    for part in parts:
        if not part.is_true:
            return ConditionFacts(RESOURCE_READY, False, part.reason, part.message)
    message = "workspace resource is ready"
    return ConditionFacts(RESOURCE_READY, True, "workspaceResourceStatusSuccess", message)


def invalid_condition(problem: Problem) -> ConditionFacts:
    """Return `ResourceReady` of a Workspace whose specification is refused."""
    return ConditionFacts(RESOURCE_READY, False, problem.reason, problem.message)


def _claims(progress: NodeProgress, failures: tuple[Failure, ...]) -> Iterator[ConditionFacts]:
    failure = next((each for each in failures if _is_request(each)), None)
    if failure is not None:
        yield ConditionFacts(NODE_CLAIM_READY, False, failure_reason(failure), what_failed(failure))
    elif progress.claims is not None:
        yield claim_condition(progress.claims)
    elif progress.pool is not None:
        yield pool_condition(progress.pool.wait)
    elif progress.lacks_resource:
        reason = f"{progress.requests}NotServed"
        yield ConditionFacts(NODE_CLAIM_READY, False, reason, _NOT_SERVED.format(progress.requests))


def _is_request(failure: Failure) -> bool:
    """Return whether a write is about what nodes come with, and not about nodes themselves."""
    target = failure.write.target
    return not target.resource.namespaced and target.resource != NODES


def _nodes(progress: NodeProgress, failures: tuple[Failure, ...]) -> ConditionFacts:
    failure = next((each for each in failures if each.write.target.resource.kind == "Node"), None)
    if failure is not None and not progress.nodes.is_true:
        return ConditionFacts(NODES_READY, False, progress.nodes.reason, what_failed(failure))
    return progress.nodes


Status = dict[str, Any]

_CREATION_FAILED: Final = {
    NODE_CLAIMS: "NodeClaimCreationFailed",
    NODE_POOLS: "NodePoolCreationFailed",
}


def current_status(
    seen: WorkspaceObservation, now: datetime, failures: tuple[Failure, ...] = ()
) -> StatusPatch:
    """Return the wanted status."""
    if isinstance(seen.goal, Problem):
        return _patch(seen, _invalid(seen, seen.goal, now), failures)
    progress = progress_of(seen, now)
    resources = resource_conditions(progress, failures)
    step = _without_refused_upgrade(workload_step(seen, progress), failures)
    state, cause = _state(seen, resources[-1]), _workload_cause(seen, step, failures)
    is_tuning = seen.valid_goal.spec.tuning is not None
    conditions = tuning_conditions if is_tuning else inference_conditions
    parts = (*resources, *conditions(state, cause))
    if seen.refused is not None:
        refusal = invalid_condition(seen.refused)
        parts = (*(each for each in parts if each.type != refusal.type), refusal)
    wanted = {
        **_counts(progress),
        **_measured(seen, step),
        "state": state.value,
        "conditions": _conditions(seen, parts, step, now),
    }
    return replace(_patch(seen, wanted, failures), settles=_settles(seen, progress, now))


def _settles(seen: WorkspaceObservation, progress: NodeProgress, now: datetime) -> float:
    """Return the seconds for which a status is held, so that changes of a claim are reported once.

    It is half of the least wait between two claims. Karpenter does not wait before it replaces one.
    """
    least = seen.options.claims.first_retry.total_seconds()
    pool = seen.pool
    if pool is not None and pool.found is not None:
        return least if is_replacing(pool.found, pool.claims.values(), now) else 0.0
    return least / 2 if progress.claims is not None and progress.claims.again else 0.0


def _workload_cause(
    seen: WorkspaceObservation, step: WorkloadStep, failures: tuple[Failure, ...]
) -> Cause:
    """Return the problem that stops the workload's progress; empty while only time is needed."""
    for failure in failures:
        if failure.write.target.scope in {WORKLOAD_SCOPE, HISTORY_SCOPE}:
            return Cause(failure_reason(failure), what_failed(failure))
    found = step.blocked or missing_pod(seen)
    if seen.valid_goal.spec.tuning is not None:
        found = found or job_cause(seen.workload.pods)
    else:
        found = found or server_cause(seen.workload.pods)
        missing = next(missing_services(seen), None)
        if found is None and seen.workload.server is not None and missing is not None:
            message = f"Service {missing.target.name} does not exist yet"
            return Cause("ServiceMissing", message)
    return found or Cause("", "")


def _state(seen: WorkspaceObservation, resources: ConditionFacts) -> WorkspaceState:
    if seen.valid_goal.spec.tuning is not None:
        return tuning_state(seen.workload.job, seen.workload.pods)
    is_served = serves(seen.workload.server) and not any(missing_services(seen))
    if is_served and resources.is_true:
        return WorkspaceState.READY
    was_ready = seen.status.get("state") in {"Ready", "NotReady"}
    return WorkspaceState.NOT_READY if was_ready else WorkspaceState.PENDING


def _counts(progress: NodeProgress) -> Status:
    names = sorted(node.name for node in progress.workers if node.is_ready)
    wanted: Status = {"workerNodes": names or None}
    if progress.target:
        wanted["targetNodeCount"] = progress.target
    return wanted


def _without_refused_upgrade(step: WorkloadStep, failures: tuple[Failure, ...]) -> WorkloadStep:
    """Return the step, in which the server keeps its image if the server's patch was refused."""
    refused = (each for each in failures if not each.unknown)
    is_refused = any(each.write.target.scope == WORKLOAD_SCOPE for each in refused)
    return replace(step, upgrades=False) if is_refused else step


def _measured(seen: WorkspaceObservation, step: WorkloadStep) -> Status:
    """Return the result of the benchmark if it is new; the value None removes it (KAI-22)."""
    if step.upgrades:
        return {"performance": None}
    model = seen.valid_goal.model
    found = performance(seen.workload.benchmark, model.quantization if model else "")
    return {"performance": found} if found is not None else {}


def _conditions(
    seen: WorkspaceObservation, parts: Sequence[ConditionFacts], step: WorkloadStep, now: datetime
) -> list[dict[str, Any]]:
    """Return the present conditions with these parts, without those that are no longer set."""
    conditions = conditions_before(seen.workspace, now)
    conditions.remove(READY)  # only the runtime sets it, while the kind itself fails
    for part in parts:
        part.set_in(conditions)
    if NODE_CLAIM_READY not in {part.type for part in parts}:
        conditions.remove(NODE_CLAIM_READY)
    benchmark = benchmark_condition(seen.workload.benchmark, conditions_of(seen.workspace))
    if step.upgrades:
        conditions.remove(BENCHMARK_COMPLETED)
    elif benchmark is not None:
        benchmark.set_in(conditions)
    doubt = "; ".join(seen.consistency_warnings)
    conditions.set_if(OBSERVATION_IN_DOUBT, "True", "CacheDisagrees", doubt)
    set_fields_known(conditions, seen.unknown_fields)
    set_pool_condition(conditions, seen.inference_pool)
    conditions.set_features(streaming_annotations(seen.workspace.metadata.annotations or {}))
    return conditions.as_list()


def _invalid(seen: WorkspaceObservation, problem: Problem, now: datetime) -> Status:
    """Return the status of an invalid Workspace; its objects are left unchanged."""
    conditions = conditions_before(seen.workspace, now)
    conditions.remove(READY)
    invalid_condition(problem).set_in(conditions)
    return {"conditions": conditions.as_list()}


def _patch(
    seen: WorkspaceObservation, wanted: Status, failures: tuple[Failure, ...]
) -> StatusPatch:
    events = tuple(_events(seen, failures))
    urgent = bool(events) or _verdicts(seen.status) != _verdicts(wanted)
    return StatusPatch(wanted, urgent=urgent, events=events)


def _events(seen: WorkspaceObservation, failures: tuple[Failure, ...]) -> Iterator[Event]:
    """Yield events about what no stored condition has reported yet."""
    problem = seen.goal if isinstance(seen.goal, Problem) else seen.refused
    if problem is not None and not _is_told(seen, problem.message):
        yield Event("Warning", problem.reason, "Validate", problem.message)
    if isinstance(seen.goal, Problem):
        return
    yield from unknown_field_events(conditions_of(seen.workspace), seen.unknown_fields)
    for failure in failures:
        reason = _event_reason(failure)
        if reason and not failure.may_resolve:
            note, action = what_failed(failure), verb_of(failure.write).capitalize()
            if not _is_told(seen, note):
                yield Event("Warning", reason, action, note, quotes=True)
            return


def _event_reason(failure: Failure) -> str:
    """Return the reason of an event about a failed write; empty if no condition names it."""
    target = failure.write.target
    if isinstance(failure.write, Create) and target.resource in _CREATION_FAILED:
        return _CREATION_FAILED[target.resource]
    return failure_event(failure) if target.scope in {WORKLOAD_SCOPE, HISTORY_SCOPE} else ""


def _is_told(seen: WorkspaceObservation, text: str) -> bool:
    return any(
        each.get("message") == stored_message(text) for each in conditions_of(seen.workspace)
    )


def _verdicts(status: Status) -> list[tuple[Any, ...]]:
    return [(status.get("state"), status.get("targetNodeCount")), *verdicts(status)]


def deleting_status(
    seen: WorkspaceObservation, remaining: tuple[str, ...], now: datetime
) -> StatusPatch:
    """Return the one condition of a deleted Workspace; it names what is waited for."""
    message = "workspace is being deleted"
    if remaining:
        message = f"{message}; waiting until these are gone: {', '.join(remaining)}"
    return deletion_status(seen.workspace, now, "WorkspaceDeleting", "workspaceDeleted", message)
