"""The end of a Workspace: its claims go first, then its finalizer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.apimachinery.timestamps import time_of
from controller.kaito.api import labels
from controller.kaito.provisioning.deletion import BOUND, remove_claims
from controller.kaito.workspace.claim_writes import delete_claims, look_up_claims
from controller.kaito.workspace.commit import workspace_target
from controller.kaito.workspace.status.deleting import deleting_status
from controller.runtime.plan import NOTHING, Event, Plan
from controller.runtime.reconcile.finalizers import remove_finalizer

if TYPE_CHECKING:
    from datetime import datetime

    from controller.kaito.workspace.observation import WorkspaceObservation


def plan_deletion(seen: WorkspaceObservation, now: datetime) -> Plan:
    """Delete the claims; drop the finalizer once they are gone, or the bound has passed.

    A committed claim that is not seen may exist all the same: it is looked up first. Without the
    resource there are no claims.
    """
    meta, claims = seen.workspace.metadata, seen.claims
    if labels.WORKSPACE_FINALIZER not in meta.finalizers:
        return NOTHING
    if claims is None:
        return _finish(seen)
    unseen = seen.committed_names - claims.by_name.keys() - claims.pending - claims.absent
    if unseen:
        return Plan(lookups=look_up_claims(sorted(unseen)))
    deleted_at = time_of(meta.deletion_timestamp) or now
    removal = remove_claims(claims.by_name.values(), claims.pending, deleted_at, now)
    if removal.is_over:
        return _finish(seen, removal.remaining)
    return Plan(
        independent=tuple(delete_claims(removal.delete, "its Workspace is deleted")),
        status=deleting_status(seen, removal.remaining, now),
        requeue_after=(removal.wake_at - now).total_seconds() if removal.wake_at else None,
    )


def _finish(seen: WorkspaceObservation, remaining: tuple[str, ...] = ()) -> Plan:
    meta, event = seen.workspace.metadata, None
    if remaining:
        minutes = int(BOUND.total_seconds() // 60)
        note = f"left behind after {minutes} minutes: NodeClaims {', '.join(remaining)}"
        event = Event("Warning", "NodeClaimsLeftBehind", "Delete", note)
    target = workspace_target(meta)
    removal = remove_finalizer(target, meta, labels.WORKSPACE_FINALIZER, on_success=event)
    return Plan(commit=removal)
