"""The status between transitions: the reports of Ray and the cluster, and the first cause.

It decides and counts nothing; at rest the result equals the stored status.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.conditions import READY, find_condition, rfc3339, time_of
from controller.apimachinery.custom_object import status_of
from controller.apimachinery.patches import difference, replacement
from controller.apimachinery.redaction import excerpt
from controller.ray.job.attempt.cluster_changes import is_outdated
from controller.ray.job.attempt.submitted_fields import changed_after_submission
from controller.ray.job.attempt.unconfirmed_stop import unconfirmed_stop
from controller.ray.job.cleanup.cleanup import unmatched_rules
from controller.ray.job.collect_facts import dashboard_outage, info_of, is_end_stored
from controller.ray.job.states import State
from controller.ray.job.status.conditions import (
    DELETION_RULES_MATCH,
    NO_RULE_MATCHES,
    JobConditions,
)
from controller.ray.job.status.messages import LONGEST_MESSAGE
from controller.ray.job.status.readiness import job_readiness
from controller.runtime.plan import Event, StatusPatch
from controller.runtime.reconcile.definitions.refused_edit import (
    refused_edit_events,
    set_spec_accepted,
)
from controller.runtime.reconcile.definitions.unknown_fields import (
    set_fields_known,
    unknown_field_events,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.ray.job.observation import JobObservation
    from controller.ray.job.settings import JobSettings
    from controller.ray.job.state_machine.deadlines import Deadlines
    from controller.ray.job.status.readiness import JobReadiness
    from controller.runtime.plan import Failure

Status = dict[str, Any]

_NOT_URGENT: Final = frozenset({"rayClusterStatus", "message", "conditions"})
"""Fields whose changes may be written later."""

_FAILURE_SHOWN: Final = timedelta(seconds=3)
"""Time for which a failure is shown before the end of its job is added."""

_INTERVAL: Final = 3.0
"""Seconds between writes of such changes, the interval at which KubeRay checks."""


def current_status(
    seen: JobObservation,
    settings: JobSettings,
    deadlines: Deadlines,
    failures: tuple[Failure, ...] = (),
) -> StatusPatch:
    """Return the desired status if the state does not change."""
    wanted: Status = {"observedGeneration": seen.job.metadata.generation}
    readiness = job_readiness(seen, settings, deadlines, failures)
    if seen.state.has_attempt:
        wanted |= {"rayClusterStatus": cluster_status_copy(seen)}
    if seen.state is State.RUNNING:
        wanted |= ray_fields(seen)
        since = dashboard_outage(seen, settings, deadlines).since
        wanted["jobStatusCheckFailureStartTime"] = rfc3339(since) if since is not None else None
    if seen.state is State.FAILED:
        wanted |= _late_result(seen, deadlines)
    if seen.state is State.VALIDATION_FAILED and seen.problem is not None:
        wanted["message"] = str(seen.problem)
    conditions = seen.status.get("conditions")
    if conditions:  # KubeRay's CRD drops them: they would be written for ever
        wanted["conditions"] = _conditions(seen, settings, deadlines, readiness, failures)
    present: Status = dict(seen.status)
    unmatched = unmatched_rules(seen, settings, deadlines)
    changed, events = set(difference(present, wanted)), _events(seen, readiness, unmatched)
    told = bool(events) or _condition_states(present) != _condition_states(wanted)
    urgent = told or bool(changed - _NOT_URGENT)
    return StatusPatch(wanted, urgent=urgent, interval=_INTERVAL, events=events)


def ray_fields(seen: JobObservation) -> Status:
    """Return Ray's report about the job as KubeRay's fields; empty without a report."""
    info = info_of(seen)
    if info is None:
        return {}
    times = {"startTime": info.start_time, "endTime": info.end_time}
    return {
        "jobStatus": info.status.value,
        "message": excerpt(info.message, characters=LONGEST_MESSAGE) or None,
        "rayJobInfo": {
            name: rfc3339(moment) for name, moment in times.items() if moment is not None
        },
    }


def _late_result(seen: JobObservation, deadlines: Deadlines) -> Status:
    """Return how the job of a failed attempt ended in Ray, if that was not known at its failure.

    It is written after the failure was there to be read for some seconds: clients of KubeRay look
    for the state in which the job was when its time was over, once a second.
    """
    info = info_of(seen)
    if info is None or not info.status.terminal or is_end_stored(seen):
        return {}
    if not deadlines.waited(time_of(seen.status.get("endTime")), _FAILURE_SHOWN):
        return {}
    return {name: value for name, value in ray_fields(seen).items() if name != "message"}


def cluster_status_copy(seen: JobObservation) -> Status | None:
    """Return a copy of the cluster's status; fields it no longer has are removed."""
    if seen.cluster is None:
        return None
    return replacement(seen.status.get("rayClusterStatus") or {}, status_of(seen.cluster))


def _conditions(
    seen: JobObservation,
    settings: JobSettings,
    deadlines: Deadlines,
    readiness: JobReadiness,
    failures: tuple[Failure, ...],
) -> list[dict[str, Any]]:
    conditions = JobConditions(seen, deadlines.now)
    ended = seen.state.terminal
    changed = changed_after_submission(seen) if ended or seen.state.has_attempt else []
    conditions.set_changed(changed, ended=ended)
    conditions.set_stopped(unconfirmed_stop(seen, deadlines))
    has_begun = ended or seen.state.has_attempt
    set_spec_accepted(conditions, seen.problem if has_begun else None)
    if ended:
        conditions.set_rules_match(unmatched_rules(seen, settings, deadlines))
        conditions.set_cleanup(readiness.reason, readiness.message if failures else "")
        return conditions.as_list()
    conditions.set_ready(readiness)
    unreachable = ""
    if seen.state is State.RUNNING:
        quiet = dashboard_outage(seen, settings, deadlines)
        if quiet.since is not None:
            error = seen.answer.error if seen.answer is not None else ""
            unreachable = f"no answer since {rfc3339(quiet.since)}: {error}".rstrip(": ")
    conditions.set_dashboard(unreachable)
    set_fields_known(conditions, seen.unknown_fields)
    seen.definition.set_in(conditions)
    conditions.set_outdated(outdated=seen.state.has_attempt and is_outdated(seen))
    return conditions.as_list()


def _events(seen: JobObservation, readiness: JobReadiness, unmatched: str) -> tuple[Event, ...]:
    """Return Warning events of unknown fields and of causes that no condition reports yet."""
    stored = seen.status.get("conditions", ())
    events = unknown_field_events(stored, seen.unknown_fields) if stored else ()
    if seen.state.terminal or seen.state.has_attempt:
        events += refused_edit_events(seen.problem, status_of(seen.job), seen.job.metadata)
    if unmatched and stored and find_condition(stored, DELETION_RULES_MATCH) is None:
        events += (Event("Warning", NO_RULE_MATCHES, "Reconcile", unmatched),)
    told = find_condition(stored, READY) or {}
    if not readiness.event or told.get("reason") == readiness.reason:
        return events
    return (*events, Event("Warning", readiness.event, "Reconcile", readiness.message))


def _condition_states(status: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Return types and statuses: a change of only reasons and messages is not urgent."""
    return [(c.get("type"), c.get("status")) for c in status.get("conditions", ())]
