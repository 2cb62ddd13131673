"""Plans the next writes of an InferenceSet; `plan_inference_set` is the entry.

The plan is a pure function of the observation and the time. The operator remembers nothing: the
next step follows from the existing Workspaces, so that a restarted operator continues.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from controller.apimachinery.problem import Problem
from controller.kaito.api import labels
from controller.kaito.api.definitions.definition_guard import leave_as_it_is
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
"""Seconds between two checks of a name that another owner holds; its release causes no event."""


def plan_inference_set(seen: InferenceSetObservation, now: datetime) -> Plan:
    """Return the plan that takes the replicas one step towards the specification."""
    if seen.inference_set.metadata.terminating:
        return _plan_deletion(seen, now)
    return leave_as_it_is(seen.inference_set, seen.definition) or _plan_replicas(seen, now)


def _plan_replicas(seen: InferenceSetObservation, now: datetime) -> Plan:
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
    """Remove the finalizer that Kaito has added; the garbage collector deletes the Workspaces.

    So a user may orphan them on purpose, and a set can be deleted without an operator.
    """
    meta = seen.inference_set.metadata
    removal = remove_finalizer(set_target(meta), meta, labels.INFERENCE_SET_FINALIZER)
    return Plan(commit=removal) if removal is not None else Plan(status=deleting_status(seen, now))
