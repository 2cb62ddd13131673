"""Decides when a cluster that nobody uses ends, and reports how long nobody has used it.

Ray's own answers decide: the time of the last use is the head's, so that neither a restart of the
operator nor the interval of its questions moves it. The condition `Idle` is True since then. Before
anything ends, Ray must have answered a question that was asked after the time was over; while it
does not answer, nothing ends. Clusters of a RayJob or RayService are left to those.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from controller.apimachinery.conditions import (
    ConditionStatus,
    rfc3339,
)
from controller.ray.api import labels
from controller.ray.api.lifetime_options import (
    DELETE,
    SCALE_DOWN,
    SUSPEND,
    is_idle_suspended,
)
from controller.ray.api.names import SUSPENDED, SUSPENDING
from controller.ray.api.pod_state import ray_started
from controller.ray.api.raycluster import RAYCLUSTERS, IdleTerminationOptions, RayCluster
from controller.ray.cluster.conditions import ClusterConditions
from controller.ray.cluster.observation import (
    ClusterObservation,
    DesiredCluster,
    soonest,
    stored_status,
)
from controller.ray.dashboard.probes import ProbeObservation
from controller.ray.dashboard.serve import RayActivity
from controller.runtime.plan import Delete, Event, MergePatch, Plan, Target

IDLE: Final = "Idle"
"""Type of the condition about use."""

UNUSED: Final = "Unused"
"""Its reason while nobody uses the cluster."""

AT_MINIMUM: Final = "AtMinimum"
"""Its reason while nobody uses the cluster, and its groups have no replica left to take."""

_IN_USE: Final = "InUse"
_NO_ANSWER: Final = "NoAnswer"
"""Its reasons while it is used, and while Ray does not say."""

_SUSPENDED: Final = "Suspended"
"""Its reason while the cluster is suspended because nobody used it."""

DELETION_ANNOUNCED: Final = "IdleDeletionAnnounced"
"""Type of the condition that announces the deletion of the object."""

_SLOWEST_ANSWER: Final = timedelta(seconds=10)
"""By so much the time of the last use may be too early: it is counted from the question."""

_LONGEST_NOTICE: Final = timedelta(seconds=60)
_ASKED_AGAIN: Final = 5.0
"""Seconds until an answer that is still too old is looked at again."""


class _Idleness(msgspec.Struct, frozen=True):
    """The use of a cluster with options.

    Attributes:
        use: what Ray says: reason of the condition.
        message: in words, without when it ends; empty as long as Ray may still answer.
        since: the time since which nobody has used it; None unless it is unused.
        due: the time at which it ends; None unless it is unused.
        is_confirmed: whether a question that was asked after `due` had this answer too.
    """

    options: IdleTerminationOptions
    use: str
    message: str
    since: datetime | None = None
    due: datetime | None = None
    is_confirmed: bool = False


def with_idle(plan: Plan, seen: ClusterObservation) -> Plan:
    """Return the plan with the end of the cluster when it is time."""
    if seen.cluster.metadata.terminating or plan.lookups or plan.commit is not None:
        return plan
    if _is_wanted_again(seen):
        note = "spec.suspend was set to false"
        event = Event("Normal", "ResumedIdleRayCluster", "Resume", note)
        return replace(plan, commit=_switch(seen, event, is_suspended=False))
    idleness = _idleness(seen)
    if idleness is None or idleness.due is None:
        return plan
    wait = _seconds_left(seen, idleness)
    if wait == 0:
        return _end(plan, seen, idleness)
    return replace(plan, requeue_after=soonest(wait, plan.requeue_after))


def _end(plan: Plan, seen: ClusterObservation, idleness: _Idleness) -> Plan:
    if idleness.options.policy == SCALE_DOWN:
        return replace(plan, commit=_scale_down(seen, idleness.message))
    if idleness.options.policy != DELETE:
        event = Event("Normal", "SuspendedIdleRayCluster", "Suspend", idleness.message)
        return replace(plan, commit=_switch(seen, event, is_suspended=True))
    event = Event("Normal", "DeletedIdleRayCluster", "Delete", idleness.message)
    deletion = Delete(_target(seen), seen.cluster.metadata.uid, on_success=event)
    return replace(plan, stages=((deletion,),), independent=())


def resumed(cluster: RayCluster, desired: DesiredCluster) -> DesiredCluster:
    """Return the desired state with `suspend: false` where `idleSuspend` has ended.

    Without `suspend` a suspended cluster stays so, but here nobody had ever written it.
    """
    if desired.spec.suspend is not None or _suspended_at(cluster) is None:
        return desired
    return replace(desired, spec=msgspec.structs.replace(desired.spec, suspend=False))


def suspension_remedy(seen: ClusterObservation) -> str:
    """Return how to resume a cluster that is suspended because nobody used it, else nothing."""
    if not is_idle_suspended(seen.cluster, seen.desired.spec):
        return ""
    annotation = f"metadata.annotations[{labels.IDLE_SUSPEND}]"
    path = "spec.idleSuspend" if seen.desired.spec.idle_suspend else annotation
    return f"set {path} to false, or spec.suspend to false, to resume it"


def set_idle(conditions: ClusterConditions, seen: ClusterObservation) -> None:
    """Set the two conditions about use."""
    if _is_suspended_by_us(seen):
        _keep_suspended(conditions, seen)
        return
    idleness = _idleness(seen)
    if idleness is None:
        conditions.remove(IDLE)
        conditions.remove(DELETION_ANNOUNCED)
        return
    status: ConditionStatus = "Unknown"
    options, reason, message = idleness.options, idleness.use, idleness.message
    before = seen.condition(IDLE)
    if not message and before and before.get("reason") != _SUSPENDED:
        return  # a new operator goes on with what is known
    message = message or f"the head has not answered yet; {_rule(options)}"
    if idleness.due is not None and idleness.since is not None:
        status, message = "True", f"{message}; {_outlook(seen.desired, options, idleness.due)}"
        if options.policy == SCALE_DOWN and not _surplus_groups(seen.desired):
            reason = AT_MINIMUM
    elif idleness.use == _IN_USE:
        status = "False"
    conditions.set(IDLE, status, reason, message)
    if idleness.since is not None:
        conditions.set_since(IDLE, idleness.since)
    announced = _announcement(seen, idleness)
    conditions.set_if(DELETION_ANNOUNCED, "True", UNUSED, announced)


def idle_events(seen: ClusterObservation) -> Iterator[Event]:
    """Yield the announcement of a deletion, once."""
    idleness = _idleness(seen)
    if idleness is None or seen.is_true(DELETION_ANNOUNCED):
        return
    if note := _announcement(seen, idleness):
        yield Event("Warning", DELETION_ANNOUNCED, "Delete", note)


def idle_outlook(seen: ClusterObservation) -> str:
    """Return what becomes of a cluster without use, and when, as far as its status tells."""
    options = idle_options(seen)
    if options is None:
        return ""
    since = seen.since(IDLE) if seen.is_true(IDLE) else None
    if since is None:
        return _rule(options)
    due = max(since + timedelta(seconds=options.timeout_seconds), seen.now)
    return f"nobody has used it since {rfc3339(since)}; {_outlook(seen.desired, options, due)}"


def idle_options(seen: ClusterObservation) -> IdleTerminationOptions | None:
    """Return the options; None where the owner of a cluster ends it, or while it is suspended."""
    options = seen.desired.spec.idle_termination_options
    if options is None or seen.cluster.metadata.controller is not None or seen.is_suspended:
        return None
    return options


def _idleness(seen: ClusterObservation) -> _Idleness | None:
    """Return what Ray says; None if it is not asked."""
    options = idle_options(seen)
    if options is None:
        return None
    answer = seen.ray.activity
    value = answer.value if answer is not None else None
    if answer is None or answer.failing_since is not None or not isinstance(value, RayActivity):
        why = answer.error if answer is not None and answer.failing_since is not None else ""
        return _Idleness(
            options, _NO_ANSWER, why and f"Ray does not say who uses the cluster: {why}"
        )
    if value.uses:
        return _Idleness(options, _IN_USE, "; ".join(value.uses))
    since = _unused_since(seen, value, answer)
    if _is_scaled_up(seen):
        since = max(since, seen.now)
    due = since + timedelta(seconds=options.timeout_seconds)
    asked = answer.last_success
    return _Idleness(
        options,
        UNUSED,
        f"nobody has used the cluster since {rfc3339(since)}",
        since,
        due,
        is_confirmed=asked is not None and asked >= due + _SLOWEST_ANSWER,
    )


def _is_scaled_up(seen: ClusterObservation) -> bool:
    """Return whether somebody has scaled an unused cluster up again: who does so will use it."""
    before = seen.condition(IDLE)
    return before.get("reason") == AT_MINIMUM and bool(_surplus_groups(seen.desired))


def _unused_since(
    seen: ClusterObservation, value: RayActivity, answer: ProbeObservation
) -> datetime:
    """Return the time of the last use by our clock, and never one before a use that was seen.

    Ray's clock is the head's; what counts is how long ago Ray says that the last use ended. Ray
    does not say when an application of Serve was deleted, nor what happened while it was silent:
    then the first question counts that was answered like this.
    """
    started = ray_started(seen.ray.head_pod) if seen.ray.head_pod is not None else None
    known = [started] if started is not None else []  # of its own start Ray itself says nothing
    if value.last is not None:
        known.append(answer.since - max(value.reported - value.last, timedelta()))
    changed = seen.since(IDLE)
    match seen.condition(IDLE).get("status"):
        case "True" if changed is not None:
            known.append(changed)
        case "False" if changed is None or max(known, default=changed) <= changed:
            known.append(answer.since)
        case "Unknown" if answer.last_success is not None:
            known.append(answer.last_success)
        case _:
            pass
    return max(known, default=answer.since)


def _seconds_left(seen: ClusterObservation, idleness: _Idleness) -> float | None:
    """Return the seconds until the cluster may end, or is looked at again; None for never."""
    assert idleness.due is not None
    options = idleness.options
    if options.policy == SCALE_DOWN and not _surplus_groups(seen.desired):
        return None
    due = idleness.due
    if options.policy == DELETE:
        notice = _notice(options)
        since = seen.since(DELETION_ANNOUNCED)
        if since is None:
            return max((due - notice - seen.now).total_seconds(), 1.0)
        due = max(due, since + notice)
    if seen.now < due:
        return (due - seen.now).total_seconds()
    return 0.0 if idleness.is_confirmed else _ASKED_AGAIN


def _notice(options: IdleTerminationOptions) -> timedelta:
    return min(_LONGEST_NOTICE, timedelta(seconds=options.timeout_seconds) / 2)


def _announcement(seen: ClusterObservation, idleness: _Idleness) -> str:
    """Return the announcement of the deletion; empty before its time."""
    options = idleness.options
    if options.policy != DELETE or idleness.due is None:
        return ""
    notice = _notice(options)
    if seen.now < idleness.due - notice:
        return ""
    since = seen.since(DELETION_ANNOUNCED) or seen.now
    end = rfc3339(max(idleness.due, since + notice))
    return (
        f"{idleness.message}: it is deleted at {end} unless a driver, a job or an application of "
        "Serve uses it before"
    )


_ENDS: Final = {
    SUSPEND: "it is suspended",
    DELETE: "it is deleted",
    SCALE_DOWN: "its groups are scaled to minReplicas",
}


def _rule(options: IdleTerminationOptions) -> str:
    return f"{_ENDS[options.policy]} when nobody has used it for {options.timeout_seconds} s"


def _outlook(desired: DesiredCluster, options: IdleTerminationOptions, due: datetime) -> str:
    """Return what happens when."""
    if options.policy == SCALE_DOWN and not _surplus_groups(desired):
        return "all groups have their minReplicas"
    return f"{_ENDS[options.policy]} at {rfc3339(due)} unless it is used before"


def _suspended_at(cluster: RayCluster) -> int | None:
    """Return the generation of the suspension that the status reports, None without one."""
    found = stored_status(cluster).by_type.get(IDLE, {})
    if found.get("reason") != _SUSPENDED:
        return None
    generation = found.get("observedGeneration")
    return generation if isinstance(generation, int) else 0


def _is_wanted_again(seen: ClusterObservation) -> bool:
    """Return whether an edit after the suspension says `suspend: false`."""
    generation = _suspended_at(seen.cluster)
    is_edited = generation is not None and generation < seen.cluster.metadata.generation
    is_resumed = seen.cluster.spec.get("suspend") is False
    return is_edited and is_resumed and is_idle_suspended(seen.cluster, seen.desired.spec)


def _is_suspended_by_us(seen: ClusterObservation) -> bool:
    """Return whether the suspension is that of an idle cluster, until its last trace has gone."""
    before = seen.condition(IDLE)
    is_still = seen.is_true(SUSPENDING) or seen.is_true(SUSPENDED)
    was_ours = before.get("reason") == _SUSPENDED
    return is_idle_suspended(seen.cluster, seen.desired.spec) or (was_ours and is_still)


def _keep_suspended(conditions: ClusterConditions, seen: ClusterObservation) -> None:
    conditions.remove(DELETION_ANNOUNCED)
    if _is_wanted_again(seen):
        return  # with its generation, by which the edit is known until it is obeyed
    since = seen.since(IDLE)
    unused = f"nobody had used the cluster since {rfc3339(since)}" if since else "was suspended"
    conditions.set(IDLE, "True", _SUSPENDED, f"{unused}; {suspension_remedy(seen)}")
    if since is not None:
        conditions.set_since(IDLE, since)


def _switch(seen: ClusterObservation, event: Event, *, is_suspended: bool) -> MergePatch:
    """Return the patch of the field, or of the annotation where the options are one."""
    given = seen.cluster.metadata.annotations or {}
    changes: dict[str, Any] = {}
    if labels.IDLE_TERMINATION in given or labels.IDLE_SUSPEND in given:
        value = "true" if is_suspended else None
        changes["metadata"] = {"annotations": {labels.IDLE_SUSPEND: value}}
    if labels.IDLE_TERMINATION not in given:
        changes["spec"] = {"idleSuspend": is_suspended}
    return _patch(seen, changes, event)


def _patch(seen: ClusterObservation, changes: dict[str, Any], event: Event) -> MergePatch:
    """Return a patch of the cluster at its revision: who edits it in the last moment is first."""
    meta = seen.cluster.metadata
    return MergePatch(
        _target(seen), meta.uid, changes, resource_version=meta.resource_version, on_success=event
    )


def _surplus_groups(desired: DesiredCluster) -> list[int]:
    """Return the positions of the groups with more replicas than their minimum."""
    return [
        position
        for position, group in enumerate(desired.spec.worker_group_specs)
        if group.desired_replicas > group.least
    ]


def _scale_down(seen: ClusterObservation, note: str) -> MergePatch:
    groups = seen.desired.spec.worker_group_specs
    written: list[dict[str, Any]] = seen.cluster.spec["workerGroupSpecs"]
    surplus = _surplus_groups(seen.desired)
    scaled = [
        {**each, "replicas": groups[position].least} if position in surplus else each
        for position, each in enumerate(written)
    ]
    event = Event("Normal", "ScaledDownIdleRayCluster", "Update", note)
    return _patch(seen, {"spec": {"workerGroupSpecs": scaled}}, event)


def _target(seen: ClusterObservation) -> Target:
    meta = seen.cluster.metadata
    return Target(RAYCLUSTERS, meta.namespace, meta.name, "idle")
