"""Deletes a Workspace: first its NodePool and claims, then its finalizer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.apimachinery.timestamps import counted_from, time_of
from controller.kaito.api import labels
from controller.kaito.provisioning.deletion import (
    BOUND,
    PoolRemoval,
    remove_claims,
    remove_pool,
)
from controller.kaito.provisioning.pools import PoolOwner
from controller.kaito.workspace.commit import workspace_target
from controller.kaito.workspace.nodes.claim_writes import delete_claims, look_up_claims
from controller.kaito.workspace.nodes.pool_writes import delete_pool, pool_target
from controller.kaito.workspace.status.deleting import deleting_status
from controller.runtime.plan import NOTHING, Event, Lookup, Plan
from controller.runtime.reconcile.finalizers import remove_finalizer

if TYPE_CHECKING:
    from datetime import datetime

    from controller.kaito.workspace.observation import SeenClaims, WorkspaceObservation

_WHY = "its Workspace is deleted"


def plan_deletion(seen: WorkspaceObservation, now: datetime) -> Plan:
    """Delete the requests for nodes; remove the finalizer once they are gone, or at the bound.

    A committed claim or pool that is not seen may exist all the same, so it is looked up first.
    Without their resources there are none.
    """
    meta = seen.workspace.metadata
    if labels.WORKSPACE_FINALIZER not in meta.finalizers:
        return NOTHING
    lookups = _lookups(seen)
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


def _lookups(seen: WorkspaceObservation) -> tuple[Lookup, ...]:
    lookups = look_up_claims(_unseen(seen, seen.claims)) if seen.claims is not None else ()
    pool = seen.pool
    if pool is None or pool.found is not None or pool.is_unreadable:
        return lookups
    if pool.is_pending or pool.is_absent:
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
    return remove_pool(
        pool.name, found, pool.claims.keys(), is_pending=pool.is_pending or pool.is_unreadable
    )


def _finish(seen: WorkspaceObservation, remaining: tuple[str, ...] = ()) -> Plan:
    meta, event = seen.workspace.metadata, None
    if remaining:
        minutes = int(BOUND.total_seconds() // 60)
        note = f"left behind after {minutes} minutes: {', '.join(remaining)}"
        event = Event("Warning", "NodeClaimsLeftBehind", "Delete", note)
    target = workspace_target(meta)
    removal = remove_finalizer(target, meta, labels.WORKSPACE_FINALIZER, on_success=event)
    return Plan(commit=removal)
