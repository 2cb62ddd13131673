"""Plans the next writes of an InferenceSet; `plan_inference_set` is the entry.

The plan is a pure function of the observation and the time. Nothing is remembered: what is due
follows from the Workspaces that exist, so that an operator that starts anew goes on where it was.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from controller.apimachinery.problem import Problem
from controller.kaito.api import labels
from controller.kaito.api.definition_guard import leave_as_it_is
from controller.kaito.inferenceset.decision import next_changes
from controller.kaito.inferenceset.status import current_status, deleting_status
from controller.kaito.inferenceset.writes import (
    create_workspaces,
    delete_workspaces,
    label_workspaces,
    set_target,
)
from controller.runtime.plan import Plan, stages_of
from controller.runtime.reconcile.finalizers import remove_finalizer

if TYPE_CHECKING:
    from datetime import datetime

    from controller.kaito.inferenceset.observation import InferenceSetObservation

_BLOCKED_RETRY: Final = 60.0
"""Seconds until a name that another owner has is looked at again; its end causes no event."""


def plan_inference_set(seen: InferenceSetObservation, now: datetime) -> Plan:
    """The plan that brings the replicas one step nearer to what the set asks for."""
    if seen.inference_set.metadata.terminating:
        return _plan_deletion(seen, now)
    untouched = leave_as_it_is(seen.inference_set, seen.definition)
    if untouched is not None:
        return untouched
    status = current_status(seen, now)
    if isinstance(seen.goal, Problem):
        return Plan(status=status)
    requeue_after = _BLOCKED_RETRY if seen.missing.taken or seen.unreadable else None
    if seen.has_pending_writes or seen.unreadable:
        return Plan(status=status, requeue_after=requeue_after)
    batch = seen.settings.batch
    decision = next_changes(seen.spec.replicas, seen.replicas, seen.missing.free, batch)
    return Plan(
        stages=stages_of(create_workspaces(seen, decision)),
        independent=(
            *delete_workspaces(seen, decision),
            *islice(label_workspaces(seen, decision), batch),
        ),
        status=status,
        requeue_after=requeue_after,
    )


def _plan_deletion(seen: InferenceSetObservation, now: datetime) -> Plan:
    """Drop the finalizer that Kaito has added; the garbage collector deletes the Workspaces.

    So whoever orphans them on purpose keeps them, and no set needs an operator to go.
    """
    meta = seen.inference_set.metadata
    removal = remove_finalizer(set_target(meta), meta, labels.INFERENCE_SET_FINALIZER)
    return Plan(commit=removal) if removal is not None else Plan(status=deleting_status(seen, now))
