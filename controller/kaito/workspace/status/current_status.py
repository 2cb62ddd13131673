"""The status of a Workspace that is not being deleted."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.conditions import (
    OBSERVATION_IN_DOUBT,
    READY,
    ConditionSet,
    stored_message,
)
from controller.apimachinery.problem import Problem
from controller.kaito.api.failed_write import failure_event, failure_reason, what_failed
from controller.kaito.api.karpenter.nodeclaim import NODE_CLAIMS
from controller.kaito.api.karpenter.nodepool import NODE_POOLS
from controller.kaito.provisioning.conditions import NODE_CLAIM_READY, ConditionFacts
from controller.kaito.provisioning.pools import is_replacing
from controller.kaito.workspace.config import Blocked
from controller.kaito.workspace.model_server.benchmark import (
    BENCHMARK_COMPLETED,
    benchmark_condition,
    performance,
)
from controller.kaito.workspace.model_server.missing_pods import missing_pod
from controller.kaito.workspace.model_server.pod_causes import job_cause, server_cause
from controller.kaito.workspace.model_server.serving import serves
from controller.kaito.workspace.model_server.workload import SCOPE as WORKLOAD_SCOPE
from controller.kaito.workspace.model_server.workload import missing_services, workload_step
from controller.kaito.workspace.nodes.progress import progress_of
from controller.kaito.workspace.revisions import SCOPE as HISTORY_SCOPE
from controller.kaito.workspace.revisions import history_of
from controller.kaito.workspace.status.outcome import (
    WorkspaceState,
    inference_conditions,
    inference_state,
    tuning_conditions,
    tuning_state,
)
from controller.kaito.workspace.status.resources import (
    invalid_condition,
    resource_conditions,
)
from controller.runtime.plan import Create, Event, StatusPatch, verb_of
from controller.runtime.reconcile.definitions.unknown_fields import (
    set_fields_known,
    unknown_field_events,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from controller.kaito.workspace.model_server.workload import WorkloadStep
    from controller.kaito.workspace.nodes.progress import NodeProgress
    from controller.kaito.workspace.observation import WorkspaceObservation
    from controller.runtime.plan import Failure

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
    has_nodes = resources[-1].is_true
    step = _without_refused_upgrade(workload_step(seen, progress, history_of(seen)), failures)
    wanted = {
        **_counts(progress),
        **_measured(seen, step),
        "state": _state(seen, has_nodes=has_nodes).value,
        "conditions": _conditions(
            seen, (*resources, *_outcome(seen, step, failures, has_nodes=has_nodes)), step, now
        ),
    }
    return replace(_patch(seen, wanted, failures), settles=_settles(seen, progress, now))


def _settles(seen: WorkspaceObservation, progress: NodeProgress, now: datetime) -> float:
    """Return the seconds for which a status is held, so that changes of a claim are reported once.

    It is half of the least wait between two claims. Karpenter does not wait before it replaces one.
    """
    least = seen.settings.claims.first_retry.total_seconds()
    pool = seen.pool
    if pool is not None and pool.found is not None:
        return least if is_replacing(pool.found, pool.claims.values(), now) else 0.0
    return least / 2 if progress.claims is not None and progress.claims.again else 0.0


def _outcome(
    seen: WorkspaceObservation,
    step: WorkloadStep,
    failures: tuple[Failure, ...],
    *,
    has_nodes: bool,
) -> Iterator[ConditionFacts]:
    state, cause = _state(seen, has_nodes=has_nodes), _workload_cause(seen, step, failures)
    if seen.valid_goal.spec.tuning is not None:
        return tuning_conditions(state, cause.message)
    return inference_conditions(
        is_ready=state is WorkspaceState.READY, reason=cause.reason, message=cause.message
    )


def _workload_cause(
    seen: WorkspaceObservation, step: WorkloadStep, failures: tuple[Failure, ...]
) -> Blocked:
    """Return the problem that stops the workload's progress; empty while only time is needed."""
    for failure in failures:
        if failure.write.target.scope in {WORKLOAD_SCOPE, HISTORY_SCOPE}:
            return Blocked(failure_reason(failure), what_failed(failure))
    if seen.valid_goal.spec.tuning is not None:
        found = step.blocked or missing_pod(seen) or job_cause(seen.workload.pods)
    else:
        refused = step.blocked or missing_pod(seen)
        found = refused or server_cause(seen.workload.pods) or _missing_service(seen)
    return found or Blocked("", "")


def _missing_service(seen: WorkspaceObservation) -> Blocked | None:
    """Return the first service that a server lacks, None if it has both."""
    missing = next(missing_services(seen), None)
    if seen.workload.server is None or missing is None:
        return None
    return Blocked("ServiceMissing", f"Service {missing.target.name} does not exist yet")


def _state(seen: WorkspaceObservation, *, has_nodes: bool) -> WorkspaceState:
    if seen.valid_goal.spec.tuning is not None:
        return tuning_state(seen.workload.job, seen.workload.pods)
    lacks_service = any(missing_services(seen))
    is_ready = has_nodes and serves(seen.workload.server) and not lacks_service
    return inference_state(seen.status.get("state", ""), is_ready=is_ready)


def _counts(progress: NodeProgress) -> Status:
    names = sorted(node.name for node in progress.workers if node.is_ready)
    wanted: Status = {"workerNodes": names or None}
    if progress.target.count:
        wanted["targetNodeCount"] = progress.target.count
    return wanted


def _without_refused_upgrade(step: WorkloadStep, failures: tuple[Failure, ...]) -> WorkloadStep:
    """Return the step, in which the server keeps its image if the server's patch was refused."""
    refused = any(
        each.write.target.scope == WORKLOAD_SCOPE and not each.unknown for each in failures
    )
    return replace(step, upgrades=False) if refused else step


def _measured(seen: WorkspaceObservation, step: WorkloadStep) -> Status:
    """Return the result of the benchmark if it is new; the value None removes it (KAI-22)."""
    if step.upgrades:
        return {"performance": None}
    model = seen.valid_goal.model
    found = performance(seen.workload.benchmark, model.quantization if model else "")
    return {"performance": found} if found is not None else {}


def _conditions(
    seen: WorkspaceObservation,
    parts: Iterable[ConditionFacts],
    step: WorkloadStep,
    now: datetime,
) -> list[dict[str, Any]]:
    """Return the present conditions with these parts, without those that are no longer set."""
    conditions = ConditionSet(seen.conditions, seen.workspace.metadata.generation, now)
    conditions.remove(READY)  # only the runtime sets it, while the kind itself fails
    types: set[str] = set()
    for part in parts:
        _set(conditions, part)
        types.add(part.type)
    if NODE_CLAIM_READY not in types:
        conditions.remove(NODE_CLAIM_READY)
    benchmark = benchmark_condition(seen.workload.benchmark, seen.conditions)
    if step.upgrades:
        conditions.remove(BENCHMARK_COMPLETED)
    elif benchmark is not None:
        _set(conditions, benchmark)
    doubt = "; ".join(seen.consistency_warnings)
    conditions.set_if(OBSERVATION_IN_DOUBT, "True", "CacheDisagrees", doubt)
    set_fields_known(conditions, seen.unknown_fields)
    return conditions.as_list()


def _set(conditions: ConditionSet, part: ConditionFacts) -> None:
    conditions.set(part.type, "True" if part.is_true else "False", part.reason, part.message)


def _invalid(seen: WorkspaceObservation, problem: Problem, now: datetime) -> Status:
    """Return the status of an invalid Workspace; its objects are left unchanged."""
    part = invalid_condition(problem.reason, problem.message)
    conditions = ConditionSet(seen.conditions, seen.workspace.metadata.generation, now)
    conditions.remove(READY)
    conditions.set(part.type, "False", part.reason, part.message)
    return {"conditions": conditions.as_list()}


def _patch(
    seen: WorkspaceObservation, wanted: Status, failures: tuple[Failure, ...]
) -> StatusPatch:
    events = tuple(_events(seen, failures))
    urgent = bool(events) or _verdicts(seen.status) != _verdicts(wanted)
    return StatusPatch(wanted, urgent=urgent, events=events)


def _events(seen: WorkspaceObservation, failures: tuple[Failure, ...]) -> Iterator[Event]:
    """Yield events about what no stored condition has reported yet."""
    if isinstance(seen.goal, Problem):
        if not _is_told(seen, seen.goal.message):
            yield Event("Warning", seen.goal.reason, "Validate", seen.goal.message)
        return
    yield from unknown_field_events(seen.conditions, seen.unknown_fields)
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
    return any(each.get("message") == stored_message(text) for each in seen.conditions)


def _verdicts(status: Status) -> list[tuple[Any, ...]]:
    """Return state, types, statuses and reasons: changed messages alone are not urgent."""
    found = status.get("conditions") or ()
    verdicts = [(each.get("type"), each.get("status"), each.get("reason")) for each in found]
    return [(status.get("state"), status.get("targetNodeCount")), *verdicts]
