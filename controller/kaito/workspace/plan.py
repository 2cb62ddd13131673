"""Plans the next writes of a Workspace; `plan_workspace` is the entry.

The plan is a pure function of the observation and the time. Nothing waits: each place where Kaito
has polled is a row here, observed, then a write or an event that is waited for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.apimachinery.problem import Problem
from controller.kaito.api import labels
from controller.kaito.api.definition_guard import leave_as_it_is
from controller.kaito.provisioning.commitment import write_commitment
from controller.kaito.workspace.claim_writes import (
    create_claims,
    delete_claims,
    label_nodes,
    look_up_claims,
)
from controller.kaito.workspace.commit import commit_patch
from controller.kaito.workspace.deletion import plan_deletion
from controller.kaito.workspace.progress import progress_of
from controller.kaito.workspace.revisions import history_of, write_history
from controller.kaito.workspace.status.current_status import current_status
from controller.kaito.workspace.workload import workload_step
from controller.runtime.plan import Plan, stages_of

if TYPE_CHECKING:
    from datetime import datetime

    from controller.kaito.provisioning.decision import ClaimDecision
    from controller.kaito.workloads import HistoryStep
    from controller.kaito.workspace.observation import WorkspaceObservation
    from controller.runtime.plan import Create


def plan_workspace(seen: WorkspaceObservation, now: datetime) -> Plan:
    """The plan that brings a Workspace one step nearer to what it asks for."""
    meta = seen.workspace.metadata
    if meta.terminating:
        return plan_deletion(seen, now)
    untouched = leave_as_it_is(seen.workspace, seen.definition)
    if untouched is not None:
        return untouched
    status = current_status(seen, now)
    if isinstance(seen.goal, Problem):
        return Plan(status=status)
    asked = (seen.workload.benchmark_log,) if seen.workload.benchmark_log is not None else ()
    progress = progress_of(seen, now)
    claims = progress.claims
    if claims is not None and claims.confirm:
        return Plan(lookups=look_up_claims(claims.confirm), subscriptions=asked)
    history = history_of(seen)
    workload = workload_step(seen, progress, history)
    return Plan(
        commit=commit_patch(meta, _annotations(claims, history)),
        subscriptions=asked,
        stages=stages_of(_creates(seen, claims), *workload.stages),
        independent=(
            *write_history(seen, history),
            *workload.changes,
            *(delete_claims(claims.delete, "it is no longer wanted") if claims else ()),
            *label_nodes(seen, progress.nodes.to_label),
        ),
        status=status,
        requeue_after=_requeue_after(claims, now),
    )


def _annotations(claims: ClaimDecision | None, history: HistoryStep) -> dict[str, str]:
    """The annotations of the Workspace; the revision is among them once it is stored."""
    marks = history.revision.annotations if history.create is None else {}
    if claims is None:
        return marks
    return {**marks, labels.NODE_CLAIMS: write_commitment(claims.commitment)}


def _creates(seen: WorkspaceObservation, claims: ClaimDecision | None) -> tuple[Create, ...]:
    request = seen.valid_goal.request
    if claims is None or request is None:
        return ()
    cloud = seen.settings.options.cloud
    return tuple(create_claims(claims.create, request, seen.workspace.metadata, cloud))


def _requeue_after(claims: ClaimDecision | None, now: datetime) -> float | None:
    if claims is None or claims.wake_at is None:
        return None
    return max((claims.wake_at - now).total_seconds(), 0.0)
