"""The status of a RayCluster: a pure function of the observation and of failed writes.

KubeRay's fields and conditions keep KubeRay's meaning, including quirks on which clients rely.
The other conditions are Manta's own and describe the present.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from msgspec.structs import replace

from controller.apimachinery.conditions import OBSERVATION_IN_DOUBT, READY, rfc3339, tells
from controller.apimachinery.patches import difference
from controller.kube.objects import Pod, Service
from controller.kube.resources import PODS
from controller.ray.api.names import (
    CHILDREN_AS_SPECIFIED,
    DELETION_HELD,
    GROUPS_UPGRADING,
    HEAD_POD_READY,
    PODS_UP_TO_DATE,
    PROVISIONED,
    RECREATING,
    SUSPENDED,
    SUSPENDING,
    is_suspension_asked,
)
from controller.ray.api.pod_state import condition, is_ready, is_running
from controller.ray.cluster.child_table import child_events
from controller.ray.cluster.children import Note
from controller.ray.cluster.conditions import (
    ClusterConditions,
    provisioning_phases,
    set_upgrading,
    upgrade_events,
    upgrade_status,
)
from controller.ray.cluster.first_cause import (
    diagnose_pods,
    first_cause,
    readiness_events,
    seconds_until_slow,
)
from controller.ray.cluster.held_deletions import (
    HeldDeletions,
    held_deletions,
    may_have_surplus,
    unexplained_number,
)
from controller.ray.cluster.idle import idle_events, set_idle
from controller.ray.cluster.observation import AnyCluster, ClusterObservation, InvalidCluster
from controller.ray.cluster.rolling_units import hides_an_edit
from controller.ray.cluster.rollout import NOT_KEPT
from controller.ray.cluster.upgrade import (
    history_notes,
    is_of_history,
    is_recreation_due,
    outdated_pods,
    outlook_of,
    pods_with_former_options,
)
from controller.ray.diagnosis.reasons import COMING_UP, Cause
from controller.ray.diagnosis.writes import failure_message
from controller.ray.head import chosen_head, is_of_pods
from controller.runtime.definitions import (
    DEFINITION_COMPLETE,
    set_fields_known,
    unknown_field_events,
)
from controller.runtime.plan import Create, Delete, Event, Failure, StatusPatch

Status = dict[str, Any]

_COUNTERS: Final = frozenset({
    "desiredWorkerReplicas",
    "availableWorkerReplicas",
    "readyWorkerReplicas",
    "minWorkerReplicas",
    "maxWorkerReplicas",
    "desiredCPU",
    "desiredMemory",
    "desiredGPU",
    "desiredTPU",
})  # fmt: skip
_SETTLES: Final = 5.0
"""Minimum seconds for which a status is held back where pods were lost.

A replacement that is lost at once is created, scheduled, started and lost in less time, and so
reported once. The first loss is reported at once, and so is its end.
"""

_SETTLES_SHARE: Final = 4
"""Without news it is held back for this part of the wait for a replacement."""

_COMES_UP_SETTLES: Final = 1.0
"""The same where a cluster comes up without failures: what its pods do next is written with it."""

_OMITTED_WHEN_EMPTY: Final = _COUNTERS | {"state", "endpoints"}


def cluster_status(seen: ClusterObservation, failures: tuple[Failure, ...]) -> StatusPatch:
    """Return the desired status after a reconcile in which these writes failed."""
    present = seen.stored.fields
    notes = history_notes(failures)
    if notes:
        children = replace(seen.children, notes=(*seen.children.notes, *notes))
        seen = replace(seen, children=children)
    failures = tuple(each for each in failures if not is_of_history(each))
    pod_causes = diagnose_pods(seen)
    held = held_deletions(seen)
    cause = first_cause(seen, failures, pod_causes, held)
    state = _state(seen, failures)
    wanted = _fields(seen, state, held)
    wanted["conditions"] = _conditions(seen, failures, cause, held)
    if state and state != present.get("state"):
        times: Status = present.get("stateTransitionTimes") or {}
        wanted["stateTransitionTimes"] = times | {state: rfc3339(seen.now)}
    events = (
        *readiness_events(seen, cause),
        *_held_events(seen, held),
        *_history_events(seen, notes),
        *upgrade_events(seen),
        *seen.definition.events(seen.stored.conditions),
        *unknown_field_events(seen.stored.conditions, seen.unknown_fields),
        *idle_events(seen),
    )
    patch = _patch(present, wanted, seen.now, events)
    return replace(
        patch,
        valid_for=seconds_until_slow(seen, pod_causes),
        phases=provisioning_phases(seen, wanted["conditions"]),
        settles=_settles(seen, cause, patch),
    )


def _fields(seen: ClusterObservation, state: str, held: HeldDeletions | None) -> Status:
    """Return the fields besides the conditions and the times of states."""
    present = seen.stored.fields
    wanted: Status = {
        "state": state,
        "observedGeneration": seen.cluster.metadata.generation,
        **seen.desired.reported,
        **_ready_workers(seen),
        "endpoints": (present.get("endpoints") or {}) | _endpoints(seen.children.head_service),
        "head": _head(seen.heads, seen.children.head_service),
    }
    if hides_an_edit(seen) or _may_get_older_pods(seen):
        wanted.pop("observedGeneration")
    upgrade = upgrade_status(seen)
    if upgrade is not None or present.get("upgrade") is not None:
        wanted["upgrade"] = upgrade
    if held is not None or (unexplained_number(seen) and may_have_surplus(seen)):
        wanted.pop("desiredWorkerReplicas")  # it says what an explained specification asked for
    return wanted


def refusal_status(seen: InvalidCluster) -> StatusPatch:
    """Return the status of an invalid cluster: `Ready` has the problem.

    Of a cluster that had begun, what its pods say is still reported; what only a specification can
    say is unchanged.
    """
    present = seen.stored.fields
    conditions = ClusterConditions(
        seen.stored.conditions, seen.cluster.metadata.generation, seen.now
    )
    problem = seen.problem
    conditions.set(READY, "False", problem.reason, str(problem))
    wanted: Status = {"observedGeneration": seen.cluster.metadata.generation}
    if seen.condition(HEAD_POD_READY):
        conditions.set_head_ready(chosen_head(seen.heads))
        wanted |= _ready_workers(seen)
    is_wanted = seen.may_have_pods and is_suspension_asked(seen.cluster, problem)
    if is_wanted or seen.is_true(SUSPENDING):
        conditions.set_suspension(is_wanted or None, pods_left=seen.may_have_pods)
        if conditions.is_true(SUSPENDED):
            wanted["state"] = "suspended"
    wanted["conditions"] = conditions.as_list()
    return _patch(present, wanted, seen.now)


def waiting_status(seen: ClusterObservation, why: str, held: HeldDeletions | None) -> StatusPatch:
    """Return the status of a cluster whose definition is awaited; the rest is unchanged.

    `why` says why the definition cannot be read, and is empty if it was read.
    """
    conditions = ClusterConditions(
        seen.stored.conditions, seen.cluster.metadata.generation, seen.now
    )
    if why:
        conditions.set(DEFINITION_COMPLETE, "Unknown", "OpenAPIUnreadable", why)
    if held is not None:
        conditions.set(DELETION_HELD, "True", "NotExplained", held.message)
    wanted: Status = {"conditions": conditions.as_list()}
    return _patch(seen.stored.fields, wanted, seen.now, _held_events(seen, held))


def _settles(seen: ClusterObservation, cause: Cause | None, patch: StatusPatch) -> float:
    """Return the seconds for which a change is held back. Nothing is replaced in a suspension."""
    losses = seen.history.losses.values()
    if losses and not seen.desired.spec.suspend:
        is_reported = _verdicts(seen.stored.fields) == _verdicts(patch.wanted)
        is_reported = is_reported and not patch.events and not any(child_events(seen))
        if cause is None or not (seen.is_recorded and is_reported):
            return _SETTLES if seen.repeated_losses else 0.0
        return max(_SETTLES, max(each.wait for each in losses) / _SETTLES_SHARE)
    return _COMES_UP_SETTLES if _comes_up(seen, cause, patch) else 0.0


def _comes_up(seen: ClusterObservation, cause: Cause | None, patch: StatusPatch) -> bool:
    """Return whether a cluster comes up for which no other object waits, and nothing is wrong."""
    if seen.cluster.metadata.controller is not None or seen.is_true(PROVISIONED):
        return False
    if seen.recorded_generation is not None and not seen.is_recorded:
        return False
    reports = patch.events or seen.desired.warnings or seen.children.notes
    return cause is not None and cause.reason in COMING_UP and not reports


def _state(seen: ClusterObservation, failures: tuple[Failure, ...]) -> str:
    """Return `suspended`, or `ready` from the moment at which all pods were ready."""
    if _is_suspended(seen):
        return "suspended"
    pods = seen.all_pods
    complete = bool(seen.heads) and len(pods) == seen.desired.workers + 1
    if complete and not failures and not seen.children.absent and all(map(_counts_ready, pods)):
        return "ready"
    return str(seen.stored.fields.get("state") or "")


def _is_suspended(seen: ClusterObservation) -> bool:
    """Return whether it is suspended, even if `suspend` was removed meanwhile."""
    suspend = seen.desired.spec.suspend
    has_been = suspend is None and seen.is_true(SUSPENDED)
    return (bool(suspend) or has_been) and not seen.may_have_pods


def _counts_ready(pod: Pod) -> bool:
    ready = condition(pod, "Ready")
    return is_running(pod) and (ready is None or ready.status == "True")


def _ready_workers(seen: AnyCluster) -> dict[str, int]:
    return {
        "availableWorkerReplicas": sum(map(is_running, seen.all_workers)),
        "readyWorkerReplicas": sum(map(is_ready, seen.all_workers)),
    }


def _surplus(seen: ClusterObservation) -> str:
    """Return why workers beyond the specification stay, empty if there are none."""
    if not seen.desired.spec.autoscaling:
        return ""
    found: list[str] = []
    for group in seen.desired.spec.worker_group_specs:
        pods = [p for p in seen.workers.get(group.group_name, ()) if not p.metadata.terminating]
        if len(pods) > group.desired_pods:
            found.append(f"group {group.group_name} has {len(pods)} of {group.desired_pods} pods")
    if not found:
        return ""
    return f"{', '.join(found)}, because only the autoscaler decides which workers may go"


def _endpoints(service: Service | None) -> dict[str, str]:
    """Return the number by which each named port can be reached: node port, else target port."""
    if service is None:
        return {}
    return {
        port.name: str(port.node_port or port.target_port or port.port)
        for port in service.spec.ports
        if port.name
    }


def _head(heads: tuple[Pod, ...], service: Service | None) -> dict[str, str]:
    head: dict[str, str] = {}
    pod = chosen_head(heads)
    if pod is not None:
        head["podName"] = pod.metadata.name
        head["podIP"] = pod.status.pod_ip
    if service is not None:
        head["serviceName"] = service.metadata.name
        headless = service.spec.cluster_ip == "None"
        head["serviceIP"] = head.get("podIP", "") if headless else service.spec.cluster_ip
    return {key: value for key, value in head.items() if value}


def _conditions(
    seen: ClusterObservation,
    failures: tuple[Failure, ...],
    cause: Cause | None,
    held: HeldDeletions | None,
) -> list[dict[str, Any]]:
    generation = seen.cluster.metadata.generation
    counted = seen.recorded_generation or 0 if _may_get_older_pods(seen) else generation
    head = ClusterConditions(seen.stored.conditions, counted, seen.now)
    head.set_head_ready(chosen_head(seen.heads))
    conditions = ClusterConditions(head.as_list(), generation, seen.now)
    of_pods = [f for f in failures if _changes_pods(f) and not f.unknown]
    if of_pods or not failures:
        first = min(
            of_pods, key=failure_message, default=None
        )  # not the one answered first: no flapping
        conditions.set_replica_failure(first)
    conditions.set_suspension(seen.desired.spec.suspend, pods_left=seen.may_have_pods)
    conditions.set_provisioned(seen.all_pods, cause)
    conditions.set_ready(cause, _surplus(seen))
    conditions.set_features(seen.desired.unsupported_fields)
    warnings = "; ".join(seen.consistency_warnings)
    conditions.set_if(OBSERVATION_IN_DOUBT, "True", "CacheDisagrees", warnings)
    conditions.set_if(CHILDREN_AS_SPECIFIED, "False", "NeedsHelp", seen.children.notes_message)
    set_fields_known(conditions, seen.unknown_fields)
    seen.definition.set_in(conditions)
    conditions.set_if(DELETION_HELD, "True", "NotExplained", held.message if held else "")
    if held is None and is_recreation_due(seen):
        why = "the specification was edited, so that all pods are being replaced"
        conditions.set(PODS_UP_TO_DATE, "False", RECREATING, why)
        conditions.set_options_in_effect((), ())
    else:
        conditions.set_options_in_effect(*pods_with_former_options(seen))
        conditions.set_up_to_date(outdated_pods(seen), *outlook_of(seen.desired.spec))
    set_upgrading(conditions, seen)
    set_idle(conditions, seen)
    return conditions.as_list()


def _may_get_older_pods(seen: ClusterObservation) -> bool:
    """Return whether a pod of an older generation may still appear.

    An edit has made such a pod outdated. If the status already had the pods of the present
    generation, nothing would explain why that pod is replaced.
    """
    return not seen.is_recorded and any(map(is_of_pods, seen.pending_scopes))


def _changes_pods(failure: Failure) -> bool:
    """Return whether creating or deleting a pod failed; KubeRay has no reason for other writes."""
    write = failure.write
    return write.target.resource is PODS and isinstance(write, Create | Delete)


def _held_events(seen: ClusterObservation, held: HeldDeletions | None) -> tuple[Event, ...]:
    if held is None or seen.is_true(DELETION_HELD):
        return ()
    return (Event("Warning", DELETION_HELD, "Delete", held.message),)


def _history_events(seen: ClusterObservation, notes: tuple[Note, ...]) -> Iterator[Event]:
    """Yield events about templates that are not stored, unless the condition reports it."""
    named = seen.condition(CHILDREN_AS_SPECIFIED)
    if not tells(named, NOT_KEPT) and not tells(named, seen.children.notes_message):
        yield from (Event("Warning", each.event, "Reconcile", each.message) for each in notes)


def _patch(
    present: Mapping[str, Any], wanted: Status, now: datetime, events: tuple[Event, ...] = ()
) -> StatusPatch:
    """Return the changed fields only; empty values are left out, as in KubeRay."""
    for key in _OMITTED_WHEN_EMPTY & wanted.keys():
        if not wanted[key]:
            wanted[key] = None
    head: Mapping[str, Any] = present.get("head") or {}
    if "head" in wanted:
        wanted["head"] |= {key: None for key in head if key not in wanted["head"]}
    changed = set(difference(present, wanted))
    urgent = bool(events) or _is_urgent(present, wanted, changed)
    return StatusPatch(
        wanted,
        urgent=urgent,
        events=events,
        stamps={"lastUpdateTime": rfc3339(now)},
        records=frozenset({GROUPS_UPGRADING}),
    )


def _is_urgent(present: Mapping[str, Any], wanted: Status, changed: set[str]) -> bool:
    """Return whether more than counters and messages changed."""
    if changed - _COUNTERS - {"conditions", "upgrade"}:
        return True
    return "conditions" in changed and _verdicts(present) != _verdicts(wanted)


def _verdicts(status: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    return [(c.get("type"), c.get("status")) for c in status.get("conditions") or ()]
