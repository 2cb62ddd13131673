"""The finalizer of RayJobs: it keeps a deleted RayJob until its job is stopped in Ray.

The garbage collector deletes what the RayJob owns. On a selected cluster, which the RayJob does not
own, only a stop in Ray ends the job.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from controller.apimachinery.timestamps import time_of
from controller.ray.api import labels
from controller.ray.api.rayjob import RAYJOBS
from controller.ray.job.attempt.dashboard import interests, stop
from controller.ray.job.attempt.writes import delete_submitter
from controller.ray.job.collect_facts import is_stopped
from controller.ray.job.states import State
from controller.runtime.plan import NOTHING, Plan, Target
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
    over = deadlines.waited(time_of(meta.deletion_timestamp), LONGEST_HOLD)
    if seen.state.terminal or over or is_stopped(seen, deadlines):
        removal = remove_finalizer(_target(seen), meta, labels.RAYJOB_FINALIZER)
        return Plan(commit=removal, subscriptions=interests(seen))
    stages = (tuple(delete_submitter(seen)),) if seen.state is State.RUNNING else ()
    return Plan(
        commands=stop(seen, deadlines.now),
        subscriptions=interests(seen),
        stages=tuple(filter(None, stages)),
        requeue_after=deadlines.seconds_to_next,
    )


def _target(seen: JobObservation) -> Target:
    return Target(RAYJOBS, seen.job.metadata.namespace, seen.job.metadata.name, scope="finalizer")
