"""Plans the next writes of a RayJob; `plan_job` is the entry.

The plan is a pure function of the observation and the time. The state machine
decides the next state in `table.py`; this module gives each state its writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from controller.apimachinery.conditions import time_of
from controller.apimachinery.object_schema import ObjectSchema
from controller.ray.api.definitions import job_fields
from controller.ray.api.names import is_managed_elsewhere
from controller.ray.api.rayjob import RAYJOBS
from controller.ray.api.validation.deletion_strategy import deletion_holes
from controller.ray.api.validation.job import ignored_cluster
from controller.ray.children import NAME_CONFLICT_RETRY
from controller.ray.dashboard.commands import CommandExpired
from controller.ray.job import attempt
from controller.ray.job.cleanup import deletion_writes, finalize, finalizer_patch, next_deletion
from controller.ray.job.collect_facts import collect_facts
from controller.ray.job.dashboard import STOP_PATIENCE, interests, stop, stop_until, submit
from controller.ray.job.facts import ClusterFact, Deadlines, HeadFact, JobFacts, State
from controller.ray.job.observation import JobObservation
from controller.ray.job.readiness import events_to_read
from controller.ray.job.status import current_status, transition_patch
from controller.ray.job.table import DueTransition, next_step
from controller.runtime import definitions
from controller.runtime.definitions import EVENT_INTERVAL, DefinitionReader
from controller.runtime.plan import NOTHING, Event, Plan, Write, stages_of


def plan_job(seen: JobObservation, now: datetime) -> Plan:
    """Return the plan for the RayJob at this moment."""
    if is_managed_elsewhere(seen.job):
        return NOTHING
    deadlines = Deadlines(now, seen.clock_jumped_at, seen.clock_steady_since)
    if seen.job.metadata.terminating:
        return finalize(seen, deadlines)
    watched = interests(seen, deadlines)
    return replace(leave_as_it_is(seen) or _plan(seen, deadlines), subscriptions=watched)


def _plan(seen: JobObservation, deadlines: Deadlines) -> Plan:
    facts = collect_facts(seen, deadlines)
    step = next_step(seen.state, facts)
    if step is not None:
        return _plan_transition(seen, step, deadlines)
    plan = Plan(lookups=events_to_read(seen, deadlines))
    if not plan.lookups:
        status = current_status(seen, deadlines)
        plan = replace(_plan_state(seen, facts, deadlines), status=status)
        if seen.state.has_attempt and plan.commit is None:
            plan = replace(plan, commit=attempt.record_disruption(seen))
    taken = seen.foreign_cluster or seen.foreign_submitter or seen.groups.taken
    retry = NAME_CONFLICT_RETRY if taken else None
    waits = (plan.requeue_after, deadlines.seconds_to_next, retry)
    return replace(
        plan,
        events=_notes(seen) if seen.state.has_attempt else (),
        requeue_after=min((wait for wait in waits if wait is not None), default=None),
    )


def _plan_transition(seen: JobObservation, step: DueTransition, deadlines: Deadlines) -> Plan:
    """Write the next state; for a failed attempt, read the logs first."""
    unread = (seen.submitter.log if seen.log is None else None, seen.head_log)
    lookups = tuple(log for log in unread if log is not None)
    if step.failed and lookups:
        return Plan(lookups=lookups)
    begins = step.state is State.INITIALIZING
    if begins and seen.state is State.NEW and (finalizer := finalizer_patch(seen)) is not None:
        return Plan(commit=finalizer)  # added before anything is created
    commit = transition_patch(seen, step, deadlines)
    return Plan(commit=commit, events=_notes(seen) if begins else ())


def _notes(seen: JobObservation) -> tuple[Event, ...]:
    """Return warnings about a valid specification that may surprise, once a generation."""
    if seen.problem is not None or seen.status.get("observedGeneration") == (
        seen.job.metadata.generation
    ):
        return ()
    notes = {
        "DeletionRulesIncomplete": deletion_holes(seen.spec, seen.settings.feature_gates),
        "InvalidRayJobSpec": ignored_cluster(seen.spec),
    }
    return tuple(
        Event("Warning", reason, "Validate", note) for reason, note in notes.items() if note
    )


def _plan_state(seen: JobObservation, facts: JobFacts, deadlines: Deadlines) -> Plan:
    """Return the plan of a state that does not change."""
    match seen.state:
        case State.INITIALIZING | State.WAITING:
            return _prepare_attempt(seen, facts, deadlines)
        case State.RUNNING:
            return _run_attempt(seen, facts, deadlines)
        case State.SUSPENDING | State.RETRYING:
            return _end_attempt(seen, deadlines)
        case State.COMPLETE | State.FAILED:
            return _clean_up(seen, deadlines)
        case State.SUSPENDED:
            return Plan(stages=stages_of(_always(seen, deadlines)))
        case _:
            return Plan()


def _always(seen: JobObservation, deadlines: Deadlines) -> Iterator[Write]:
    """Yield what is due in every state: no earlier cluster stays, and the group has its size."""
    yield from attempt.delete_stale_clusters(seen)
    yield from attempt.sync_group(seen, deadlines.now)


def _prepare_attempt(seen: JobObservation, facts: JobFacts, deadlines: Deadlines) -> Plan:
    """Create the cluster; when it is ready, record the head that the attempt will run on."""
    writes = [*attempt.delete_stale_clusters(seen)]
    may_create = facts.valid and seen.state is State.INITIALIZING and not attempt.awaits_group(seen)
    if may_create and facts.cluster is ClusterFact.ABSENT:
        writes += attempt.create_cluster(seen)
    is_due = facts.valid and facts.cluster is ClusterFact.READY and not facts.records_late
    return Plan(
        commit=attempt.record_head(seen) if is_due else None,
        stages=stages_of(attempt.sync_group(seen, deadlines.now), writes),
    )


def _run_attempt(seen: JobObservation, facts: JobFacts, deadlines: Deadlines) -> Plan:
    """Submit the job once to the recorded head, unless the specification is invalid."""
    if facts.head is HeadFact.AWAITED and not facts.records_late and not seen.awaits_other_head:
        return Plan(commit=attempt.forget_head(seen))
    recordable = (facts.valid and seen.has_answered) or not seen.is_unsubmitted
    came_later = facts.head is HeadFact.REPLACED and not seen.gcs_fault_tolerant
    if (facts.head is HeadFact.UNRECORDED and recordable) or (came_later and seen.info):
        return Plan(commit=attempt.record_head(seen))
    here = facts.valid and facts.head is HeadFact.SAME
    return Plan(
        commands=submit(seen, deadlines.now) if here else (),
        stages=stages_of(attempt.create_submitter(seen) if here else ()),
        independent=(
            *attempt.stop_submitter_retries(seen),
            *attempt.end_failed_submitters(seen, deadlines),
            *attempt.reconcile_head_service(seen),
            *_always(seen, deadlines),
        ),
    )


def _end_attempt(seen: JobObservation, deadlines: Deadlines) -> Plan:
    """End an attempt: stop its job in Ray and delete its submitter, then delete its cluster.

    A cluster that is the job's own is deleted after some seconds even if Ray has not confirmed the
    stop: the job ends with it.
    """
    writes = [*attempt.delete_submitter(seen), *attempt.sync_group(seen, deadlines.now)]
    stopping = seen.state is State.SUSPENDING and seen.may_still_run
    given_up = seen.owns_cluster and isinstance(seen.stop_outcome, CommandExpired)
    if not stopping or given_up:
        return Plan(stages=stages_of([*attempt.delete_clusters(seen), *writes]))
    return Plan(commands=stop(seen, stop_until(seen, deadlines)), stages=stages_of(writes))


def _clean_up(seen: JobObservation, deadlines: Deadlines) -> Plan:
    """Delete what the deletion rules name, after the last attempt.

    Before its cluster is deleted, a job that may still run gets some time to end in order.
    """
    policy, delay = next_deletion(seen, deadlines)
    writes, failed = [*_always(seen, deadlines)], seen.state is State.FAILED
    ended = time_of(seen.status.get("endTime"))
    stopping = failed and seen.may_still_run and not deadlines.waited(ended, STOP_PATIENCE)
    if not stopping:
        writes += deletion_writes(seen, policy)
    writes += attempt.delete_outlived_submitter(seen, deadlines)
    if failed:
        writes += attempt.delete_surviving_submitter(seen, deadlines)
    return Plan(
        commands=stop(seen, stop_until(seen, deadlines)),
        stages=stages_of(writes),
        requeue_after=delay.total_seconds() if delay is not None else None,
    )


# Fields on which a RayJob's planner relies: without them jobs would run again.
#
# A status without the attempt looks like that of a job which has yet to run. A specification
# without `suspend` may start, and one without a delay deletes the cluster at once. While the
# installed definition lacks such a field, the operator neither acts on a RayJob nor writes it, not
# even its conditions: the API server reads an object without the fields that its definition lacks,
# and any write would store it so. An object that is not written is complete again when the
# definition is.

STATUS_FIELDS: Final = (
    "jobDeploymentStatus",
    "rayClusterName",
    "jobId",
    "jobStatus",
    "startTime",
    "endTime",
    "dashboardURL",
    "failed",
)
"""Fields of the status that distinguish an attempt from one that has not begun."""


def relied_on(schema: ObjectSchema) -> Iterator[str]:
    """Yield the fields on which the planner relies."""
    yield from (f"status.{name}" for name in STATUS_FIELDS)
    yield from job_fields(schema, "spec")


def definition_reader() -> DefinitionReader:
    """Return a reader of what the installed definition of RayJobs lacks."""
    return DefinitionReader(
        RAYJOBS,
        relied_on,
        "RayJobs are left as they are, so that none is started, ended or deleted because of it",
    )


def leave_as_it_is(seen: JobObservation) -> Plan | None:
    """Return the plan that only reports missing fields; None if the RayJob is complete."""
    untouched = definitions.leave_as_it_is(seen.job, seen.definition)
    lost = "" if untouched is not None else lost_fields(seen)
    if not lost:
        return untouched
    event = Event("Warning", "StatusIncomplete", "Reconcile", lost)
    return Plan(events=(event,), requeue_after=EVENT_INTERVAL)


def is_left_as_it_is(seen: JobObservation) -> bool:
    """Return whether the status stays unchanged."""
    return not seen.job.metadata.terminating and leave_as_it_is(seen) is not None


def lost_fields(seen: JobObservation) -> str:
    """Return the fields that the status must have had, with the remedy; empty if none is missing.

    A definition may drop fields before its schema is published, or another client may write the
    object meanwhile.
    """
    lost = _lost(seen)
    if not lost:
        return ""
    return (
        f"status.{lost} is missing, although an attempt was made: its job might run twice, or "
        "its cluster be deleted. A definition of RayJobs may have dropped it, or another client "
        "removed it. Put it back (kubectl edit --subresource=status), or create the RayJob anew"
    )


def _lost(seen: JobObservation) -> str:
    leftovers = bool(seen.stale_clusters) or seen.submitter_job is not None
    has_begun = bool(seen.status.get("startTime"))
    required = {
        "jobDeploymentStatus": seen.state is not State.NEW
        or not (seen.cluster_name or (leftovers and not has_begun)),
        "rayClusterName": bool(seen.cluster_name)
        or not (_is_under_way(seen) or (seen.state.terminal and leftovers)),
        "startTime": has_begun
        or not (
            _is_under_way(seen) or (seen.state is State.VALIDATION_FAILED and seen.cluster_name)
        ),
        "jobId": bool(seen.job_id) or seen.state is not State.RUNNING,
    }
    return next((name for name, is_there in required.items() if not is_there), "")


def _is_under_way(seen: JobObservation) -> bool:
    return seen.state.has_attempt or seen.state in {State.SUSPENDING, State.RETRYING}
