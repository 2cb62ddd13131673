"""Plans the next writes of a Workspace; `plan_workspace` is the entry.

The plan is a pure function of the observation and the time. It never waits: where Kaito polls, the
plan observes a fact and either writes or leaves the next step to an event.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from msgspec.structs import replace

from controller.apimachinery.conditions import counted_from, time_of
from controller.apimachinery.validation import Problem
from controller.kaito.api import labels
from controller.kaito.api.definitions import leave_as_it_is
from controller.kaito.api.inference_pool import pool_writes
from controller.kaito.api.workspace import WORKSPACES
from controller.kaito.lookups.background import Answered
from controller.kaito.presets.models import write_model
from controller.kaito.provisioning.claims import ClaimState, write_commitment
from controller.kaito.workspace.edits import write_history
from controller.kaito.workspace.nodes import (
    NodeProgress,
    change_requests,
    delete_claims,
    delete_pool,
    label_nodes,
    label_waits,
    look_up_claims,
    look_up_lost,
    pool_target,
    progress_of,
    request_nodes,
)
from controller.kaito.workspace.observation import WorkspaceMemory, WorkspaceObservation
from controller.kaito.workspace.status import current_status, deleting_status
from controller.kaito.workspace.workload import lacks_pod, next_look_at, workload_step
from controller.kube.objects import ObjectMeta
from controller.runtime.plan import (
    NOTHING,
    AnyLookup,
    Delete,
    Event,
    Lookup,
    MergePatch,
    Plan,
    Target,
    stages_of,
)
from controller.runtime.reasons import events_of
from controller.runtime.status import remove_finalizer


def workspace_target(workspace: ObjectMeta) -> Target:
    """Return the Workspace as the target of a write."""
    return Target(WORKSPACES, workspace.namespace, workspace.name, scope="workspace")


def commit_patch(workspace: ObjectMeta, annotations: Mapping[str, str]) -> MergePatch | None:
    """Return the patch that stores what later writes depend on; None if all is there.

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


_WHY = "its Workspace is deleted"

BOUND: Final = timedelta(minutes=15)
"""Maximum time that the finalizer is kept for claims that do not end: a provider may take minutes
to release nodes, and one that was uninstalled releases none."""


def plan_deletion(seen: WorkspaceObservation, now: datetime) -> Plan:
    """Delete the requests for nodes; remove the finalizer once they are gone, or at the bound.

    A committed claim or pool that is not seen may exist all the same, so it is looked up first.
    Without their resources there are none.
    """
    meta = seen.workspace.metadata
    if labels.WORKSPACE_FINALIZER not in meta.finalizers:
        return NOTHING
    if lookups := (*_unseen_claims(seen), *_unseen_pool(seen)):
        return Plan(lookups=lookups)
    remaining = tuple(_remaining(seen))
    deleted_at = time_of(meta.deletion_timestamp) or now
    end = counted_from(deleted_at, seen.clock_steady_since, now) + BOUND
    if not remaining or now >= end:
        return _finish(meta, remaining)
    return Plan(
        independent=tuple(_removals(seen)),
        status=deleting_status(seen, remaining, now),
        requeue_after=(end - now).total_seconds(),
    )


def _unseen_claims(seen: WorkspaceObservation) -> tuple[Lookup, ...]:
    claims = seen.claims
    if claims is None or claims.commitment is None:
        return ()
    known = claims.claims.keys() | claims.pending | claims.absent
    return look_up_claims(sorted(claims.commitment.names - known))


def _unseen_pool(seen: WorkspaceObservation) -> tuple[Lookup, ...]:
    pool = seen.pool
    if pool is None or pool.found is not None or pool.is_pending or pool.is_absent:
        return ()
    return (Lookup(pool_target(pool.name)),)


def _remaining(seen: WorkspaceObservation) -> Iterator[str]:
    """Yield the requests for nodes that are not gone.

    A claim whose creation has no known outcome is one: it would stay behind.
    """
    pool, claims = seen.pool, seen.claims
    if pool is not None:
        if pool.is_pending or pool.own_pool is not None:
            yield f"NodePool {pool.name}"
        yield from (f"NodeClaim {name}" for name in sorted(pool.claims))
    if claims is not None:
        yield from (f"NodeClaim {name}" for name in sorted({*claims.pending, *claims.claims}))


def _removals(seen: WorkspaceObservation) -> Iterator[Delete]:
    """Yield the deletes that are due; a pool of another owner is left alone (KAI-9)."""
    pool, claims = seen.pool, seen.claims
    own = pool.own_pool if pool is not None and not pool.is_pending else None
    if own is not None and not own.is_terminating:
        yield delete_pool(own, _WHY)
    if claims is not None:
        found = (claims.claims[name] for name in sorted(claims.claims.keys() - claims.pending))
        living = (each for each in found if each.state is not ClaimState.TERMINATING)
        yield from delete_claims(living, _WHY)


def _finish(meta: ObjectMeta, remaining: tuple[str, ...]) -> Plan:
    event = None
    if remaining:
        minutes = int(BOUND.total_seconds() // 60)
        note = f"left behind after {minutes} minutes: {', '.join(remaining)}"
        event = Event("Warning", "NodeClaimsLeftBehind", "Delete", note)
    target, finalizer = workspace_target(meta), labels.WORKSPACE_FINALIZER
    return Plan(commit=remove_finalizer(target, meta, finalizer, on_success=event))


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
    meta = seen.workspace.metadata
    asked = tuple(filter(None, (seen.wanted_model, seen.workload.benchmark_log)))
    progress = progress_of(seen, now)
    lookups, memory = _lookups(seen, progress, now), _memory(seen, progress)
    if lookups:
        return Plan(lookups=lookups, subscriptions=asked, memory=memory)
    waits = label_waits(seen, progress, now)
    workload = workload_step(seen, progress)
    return Plan(
        commit=commit_patch(meta, _annotations(seen, progress)),
        subscriptions=asked,
        stages=stages_of(tuple(request_nodes(seen, progress)), *workload.stages),
        independent=(
            *write_history(seen),
            *workload.changes,
            *change_requests(seen, progress),
            *pool_writes(seen.inference_pool, WORKSPACES, meta, {labels.WORKSPACE: meta.name}),
            *label_nodes(seen, (name for name, wait in waits.items() if wait <= 0)),
        ),
        status=status,
        requeue_after=min(_wake_ups(seen, progress, waits.values(), now), default=None),
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


def _annotations(seen: WorkspaceObservation, progress: NodeProgress) -> dict[str, str]:
    """Return the annotations of the Workspace; the revision is among them once it is stored."""
    history = seen.workload.history
    marks = dict(history.revision.annotations) if history.create is None else {}
    if isinstance(seen.found_model, Answered):
        marks[labels.MODEL] = write_model(seen.found_model.answer)
    claims, pool = progress.claims, progress.pool
    if claims is not None and claims.is_due:
        marks[labels.NODE_CLAIMS] = write_commitment(claims.commitment)
    if pool is not None and pool.is_due:
        marks[labels.NODE_POOL_COMMITMENT] = write_commitment(pool.commitment)
    return marks


def _wake_ups(
    seen: WorkspaceObservation, progress: NodeProgress, label_waits: Iterable[float], now: datetime
) -> Iterator[float]:
    """Yield the seconds until each moment that causes no event."""
    claims = progress.claims
    yield from (each for each in label_waits if each > 0)
    if claims is not None and claims.wake_at is not None:
        yield max((claims.wake_at - now).total_seconds(), 0.0)
    look = next_look_at(seen.workload)
    if look is not None:
        yield (look - now).total_seconds()
    if seen.workload.foreign:
        yield NAME_TAKEN_RETRY
