"""Plans the next writes of a Workspace; `plan_workspace` is the entry.

The plan is a pure function of the observation and the time. It never waits: where Kaito polls, the
plan observes a fact and either writes or leaves the next step to an event.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.conditions import counted_from, time_of
from controller.apimachinery.problem import Problem
from controller.kaito.api import labels
from controller.kaito.api.definitions import leave_as_it_is
from controller.kaito.api.inference_pool import pool_writes
from controller.kaito.api.workspace import WORKSPACES
from controller.kaito.provisioning.commitment import write_commitment
from controller.kaito.provisioning.decision import (
    BOUND,
    ClaimDecision,
    PoolRemoval,
    remove_claims,
    remove_pool,
)
from controller.kaito.provisioning.pools import PoolOwner, write_pool_commitment
from controller.kaito.workspace.config import model_annotation
from controller.kaito.workspace.edits import history_of, write_history
from controller.kaito.workspace.nodes import NodeProgress, progress_of
from controller.kaito.workspace.pools import (
    change_pool,
    create_claims,
    create_pool,
    delete_claims,
    delete_pool,
    label_nodes,
    label_waits,
    look_up_claims,
    look_up_lost,
    pool_target,
)
from controller.kaito.workspace.status import current_status, deleting_status
from controller.kaito.workspace.workload import lacks_pod, next_look_at, workload_step
from controller.runtime.plan import (
    NOTHING,
    AnyLookup,
    Create,
    Event,
    Lookup,
    MergePatch,
    Plan,
    Target,
    Write,
    stages_of,
)
from controller.runtime.reasons import events_of
from controller.runtime.reconcile.status import remove_finalizer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from controller.kaito.workloads.revisions import HistoryStep
    from controller.kaito.workspace.observation import (
        SeenClaims,
        WorkspaceMemory,
        WorkspaceObservation,
    )
    from controller.kube.objects import ObjectMeta


# Stores in a Workspace's metadata what later writes depend on, before they are sent.


def workspace_target(workspace: ObjectMeta) -> Target:
    """Return the Workspace as the target of a write."""
    return Target(WORKSPACES, workspace.namespace, workspace.name, scope="workspace")


def commit_patch(workspace: ObjectMeta, annotations: Mapping[str, str]) -> MergePatch | None:
    """Return the patch that adds the finalizer and sets these annotations; None if all is there.

    Its precondition is the revision of the Workspace from which the values were decided: a process
    that has read an older one meets a conflict before it creates anything.
    """
    present = workspace.annotations or {}
    changed = {name: text for name, text in annotations.items() if present.get(name) != text}
    metadata: dict[str, Any] = {}
    if labels.WORKSPACE_FINALIZER not in workspace.finalizers:
        metadata["finalizers"] = [*workspace.finalizers, labels.WORKSPACE_FINALIZER]
    if changed:
        metadata["annotations"] = changed
    if not metadata:
        return None
    return MergePatch(
        workspace_target(workspace),
        workspace.uid,
        {"metadata": metadata},
        resource_version=workspace.resource_version,
    )


# Deletes a Workspace: first its NodePool and claims, then its finalizer.

_WHY = "its Workspace is deleted"


def plan_deletion(seen: WorkspaceObservation, now: datetime) -> Plan:
    """Delete the requests for nodes; remove the finalizer once they are gone, or at the bound.

    A committed claim or pool that is not seen may exist all the same, so it is looked up first.
    Without their resources there are none.
    """
    meta = seen.workspace.metadata
    if labels.WORKSPACE_FINALIZER not in meta.finalizers:
        return NOTHING
    lookups = _deletion_lookups(seen)
    if lookups:
        return Plan(lookups=lookups)
    claims, pool = seen.claims, _pool_removal(seen)
    deleted_at = time_of(meta.deletion_timestamp) or now
    deleted_at = counted_from(deleted_at, seen.clock_steady_since, now)
    removal = remove_claims(
        claims.by_name.values() if claims is not None else (),
        claims.pending if claims is not None else (),
        deleted_at,
        now,
        pool.remaining,
    )
    if removal.is_over:
        return _finish(seen, removal.remaining)
    return Plan(
        independent=(
            *([delete_pool(pool.delete, _WHY)] if pool.delete is not None else []),
            *delete_claims(removal.delete, _WHY),
        ),
        status=deleting_status(seen, removal.remaining, now),
        requeue_after=(removal.wake_at - now).total_seconds() if removal.wake_at else None,
    )


def _deletion_lookups(seen: WorkspaceObservation) -> tuple[Lookup, ...]:
    lookups = look_up_claims(_unseen(seen, seen.claims)) if seen.claims is not None else ()
    pool = seen.pool
    if pool is None or pool.found is not None or pool.is_pending or pool.is_absent:
        return lookups
    return (*lookups, Lookup(pool_target(pool.name)))


def _unseen(seen: WorkspaceObservation, claims: SeenClaims) -> list[str]:
    names = seen.committed_names - claims.by_name.keys() - claims.pending - claims.absent
    return sorted(names)


def _pool_removal(seen: WorkspaceObservation) -> PoolRemoval:
    """Return the removal of the pool; one of another owner is left alone (KAI-9)."""
    pool = seen.pool
    if pool is None:
        return PoolRemoval()
    is_own = pool.found is not None and pool.found.owner is PoolOwner.THIS
    found = pool.found if is_own else None
    return remove_pool(pool.name, found, pool.claims.keys(), is_pending=pool.is_pending)


def _finish(seen: WorkspaceObservation, remaining: tuple[str, ...] = ()) -> Plan:
    meta, event = seen.workspace.metadata, None
    if remaining:
        minutes = int(BOUND.total_seconds() // 60)
        note = f"left behind after {minutes} minutes: {', '.join(remaining)}"
        event = Event("Warning", "NodeClaimsLeftBehind", "Delete", note)
    target = workspace_target(meta)
    removal = remove_finalizer(target, meta, labels.WORKSPACE_FINALIZER, on_success=event)
    return Plan(commit=removal)


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
            *_inference_pool(seen),
            *label_nodes(seen, (name for name, wait in waits.items() if wait <= 0)),
        ),
        status=status,
        requeue_after=min(_wake_ups(seen, progress.claims, waits.values(), now), default=None),
        memory=memory,
    )


def _inference_pool(seen: WorkspaceObservation) -> Iterator[Write]:
    meta = seen.workspace.metadata
    return pool_writes(seen.inference_pool, WORKSPACES, meta, {labels.WORKSPACE: meta.name})


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
