"""Plans the next writes of a Workspace; `plan_workspace` is the entry.

The plan is a pure function of the observation and the time. It never waits: where Kaito polls, the
plan observes a fact and either writes or leaves the next step to an event.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from controller.apimachinery.problem import Problem
from controller.kaito.api import labels
from controller.kaito.api.definitions.definition_guard import leave_as_it_is
from controller.kaito.provisioning.commitment import write_commitment
from controller.kaito.provisioning.pool_commitment import write_pool_commitment
from controller.kaito.workspace.commit import commit_patch
from controller.kaito.workspace.deletion import plan_deletion
from controller.kaito.workspace.model_metadata import model_annotation
from controller.kaito.workspace.model_server.missing_pods import lacks_pod, next_look_at
from controller.kaito.workspace.model_server.workload import workload_step
from controller.kaito.workspace.nodes.claim_writes import (
    create_claims,
    delete_claims,
    label_nodes,
    label_waits,
    look_up_claims,
)
from controller.kaito.workspace.nodes.pool_writes import change_pool, create_pool, look_up_lost
from controller.kaito.workspace.nodes.progress import progress_of
from controller.kaito.workspace.revisions import history_of, write_history
from controller.kaito.workspace.status.current_status import current_status
from controller.runtime.plan import Plan, stages_of
from controller.runtime.refused_pods import events_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from controller.kaito.provisioning.decision import ClaimDecision
    from controller.kaito.workloads import HistoryStep
    from controller.kaito.workspace.memory import WorkspaceMemory
    from controller.kaito.workspace.nodes.progress import NodeProgress
    from controller.kaito.workspace.observation import WorkspaceObservation
    from controller.runtime.plan import AnyLookup, Create, Write


NAME_TAKEN_RETRY: Final = 30.0
"""Seconds until a taken name is checked again: its release causes no event of the Workspace."""


def plan_workspace(seen: WorkspaceObservation, now: datetime) -> Plan:
    """Return the plan that takes a Workspace one step towards its specification."""
    if seen.workspace.metadata.terminating:
        return plan_deletion(seen, now)
    return leave_as_it_is(seen.workspace, seen.definition) or _plan_workload(seen, now)


def _plan_workload(seen: WorkspaceObservation, now: datetime) -> Plan:
    """Ask for nodes, then run the model server or the job on them."""
    status = current_status(seen, now)
    if isinstance(seen.goal, Problem):
        return Plan(status=status)
    asked = tuple(filter(None, (seen.wanted_model, seen.workload.benchmark_log)))
    progress = progress_of(seen, now)
    lookups, memory = _lookups(seen, progress, now), _memory(seen, progress)
    if lookups:
        return Plan(lookups=lookups, subscriptions=asked, memory=memory)
    history = history_of(seen)
    waits = label_waits(seen, progress, now)
    workload = workload_step(seen, progress, history)
    return Plan(
        commit=commit_patch(seen.workspace.metadata, _annotations(seen, progress, history)),
        subscriptions=asked,
        stages=stages_of(_creates(seen, progress), *workload.stages),
        independent=(
            *write_history(seen, history),
            *workload.changes,
            *_changes(seen, progress),
            *label_nodes(seen, (name for name, wait in waits.items() if wait <= 0)),
        ),
        status=status,
        requeue_after=min(_wake_ups(seen, progress.claims, waits.values(), now), default=None),
        memory=memory,
    )


def _memory(seen: WorkspaceObservation, progress: NodeProgress) -> WorkspaceMemory:
    slots = progress.claims.shown if progress.claims is not None else seen.memory.slots
    return replace(seen.memory, slots=slots, nodes=progress.history)


def _lookups(
    seen: WorkspaceObservation, progress: NodeProgress, now: datetime
) -> tuple[AnyLookup, ...]:
    """Return live reads: of what must certainly be gone before it is replaced, and of events."""
    creator, look = lacks_pod(seen.workload), next_look_at(seen.workload)
    events = (events_of(creator, now),) if creator and look and look <= now else ()
    if progress.pool is not None:
        return (*look_up_lost(progress.pool), *events)
    confirm = progress.claims.confirm if progress.claims is not None else ()
    return (*look_up_claims(confirm), *events)


def _annotations(
    seen: WorkspaceObservation, progress: NodeProgress, history: HistoryStep
) -> dict[str, str]:
    """Return the annotations of the Workspace; the revision is among them once it is stored."""
    marks = dict(history.revision.annotations) if history.create is None else {}
    marks |= model_annotation(seen.found_model)
    claims, pool = progress.claims, progress.pool
    if claims is not None and claims.is_due:
        marks[labels.NODE_CLAIMS] = write_commitment(claims.commitment)
    if pool is not None and pool.is_due:
        marks[labels.NODE_POOL_COMMITMENT] = write_pool_commitment(pool.commitment)
    return marks


def _creates(seen: WorkspaceObservation, progress: NodeProgress) -> tuple[Create, ...]:
    """Return the requests for nodes."""
    request, claims = seen.valid_goal.request, progress.claims
    if progress.pool is not None and seen.pool is not None and progress.pool.create:
        return (create_pool(seen, seen.pool, progress.pool),)
    if claims is None or request is None:
        return ()
    cloud = seen.settings.options.cloud
    return tuple(create_claims(claims, request, seen.workspace.metadata, cloud))


def _changes(seen: WorkspaceObservation, progress: NodeProgress) -> Iterator[Write]:
    """Yield changes of the requests for nodes."""
    if progress.claims is not None:
        claims = progress.claims
        yield from delete_claims(claims.delete, "it is no longer wanted", again=claims.again)
    if progress.pool is not None and seen.pool is not None:
        yield from change_pool(seen, seen.pool, progress.pool)


def _wake_ups(
    seen: WorkspaceObservation,
    claims: ClaimDecision | None,
    label_waits: Iterable[float],
    now: datetime,
) -> Iterator[float]:
    """Yield the seconds until each moment that causes no event."""
    yield from (each for each in label_waits if each > 0)
    if claims is not None and claims.wake_at is not None:
        yield max((claims.wake_at - now).total_seconds(), 0.0)
    look = next_look_at(seen.workload)
    if look is not None:
        yield (look - now).total_seconds()
    if seen.workload.foreign:
        yield NAME_TAKEN_RETRY
