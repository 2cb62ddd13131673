"""The finalizer of RayJobs: it keeps a deleted RayJob until Ray confirms its job's end.

The garbage collector deletes what the RayJob owns. On a selected cluster, which the RayJob does not
own, only a stop in Ray ends the job.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from controller.apimachinery.conditions import time_of
from controller.ray.api import labels
from controller.ray.api.rayjob import RAYJOBS
from controller.ray.job.attempt.dashboard import interests, stop
from controller.ray.job.attempt.unconfirmed_stop import (
    STOP_NOT_CONFIRMED,
    stop_remedy,
    stop_text,
)
from controller.ray.job.attempt.writes import delete_submitter
from controller.ray.job.collect_facts import may_still_run
from controller.runtime.plan import NOTHING, Event, Plan, Target, stages_of
from controller.runtime.reconcile.finalizers import add_finalizer, remove_finalizer

if TYPE_CHECKING:
    from controller.ray.job.observation import JobObservation
    from controller.ray.job.state_machine.deadlines import Deadlines
    from controller.runtime.plan import MergePatch

LONGEST_HOLD: Final = timedelta(seconds=30)
"""Time after the deletion at which the finalizer is removed even if the job was not stopped."""


def finalizer_patch(seen: JobObservation) -> MergePatch | None:
    """Return the patch that adds the finalizer; None if it is there."""
    return add_finalizer(_target(seen), seen.job.metadata, labels.RAYJOB_FINALIZER)


def finalize(seen: JobObservation, deadlines: Deadlines) -> Plan:
    """Return the next step of a RayJob that is being deleted."""
    meta = seen.job.metadata
    if labels.RAYJOB_FINALIZER not in meta.finalizers:
        return NOTHING
    watched = interests(seen, deadlines)
    deleted_at = time_of(meta.deletion_timestamp)
    is_over = deadlines.waited(deleted_at, LONGEST_HOLD)
    if is_over or not may_still_run(seen):
        removal = remove_finalizer(
            _target(seen), meta, labels.RAYJOB_FINALIZER, on_success=_unconfirmed(seen)
        )
        return Plan(commit=removal, subscriptions=watched)
    return Plan(
        commands=stop(seen, (deleted_at or deadlines.now) + LONGEST_HOLD),
        subscriptions=watched,
        stages=stages_of(delete_submitter(seen)),
        requeue_after=deadlines.seconds_to_next,
    )


def _unconfirmed(seen: JobObservation) -> Event | None:
    """Return the event about a job that may go on without its RayJob; None if it cannot."""
    is_collected = seen.owns_cluster and "orphan" not in seen.job.metadata.finalizers
    if is_collected or not may_still_run(seen):
        return None
    return Event("Warning", STOP_NOT_CONFIRMED, "Delete", f"{stop_text(seen)}; {stop_remedy(seen)}")


def _target(seen: JobObservation) -> Target:
    return Target(RAYJOBS, seen.job.metadata.namespace, seen.job.metadata.name, scope="finalizer")
