"""The progress of a rolling update: what it waits for, and how long it has not advanced."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from controller.apimachinery.conditions import counted_from, find_condition, time_of
from controller.ray.api.names import UPGRADING
from controller.ray.api.pod_state import condition, is_ready
from controller.ray.cluster.head import live_head
from controller.ray.cluster.rolling_units import draining_since
from controller.ray.cluster.rollout_memory import Verdict
from controller.ray.dashboard import unconfirmed
from controller.ray.diagnosis.authors import lost_pod_cause
from controller.ray.head.endpoint import worker_scope

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from controller.kube.objects import Pod
    from controller.ray.api.upgrade_strategy import RollingUpdate
    from controller.ray.cluster.observation import ClusterObservation
    from controller.ray.cluster.rollout_memory import PodUnits


def seconds_until_overdue(
    seen: ClusterObservation, units: Sequence[PodUnits], settings: RollingUpdate, now: datetime
) -> float:
    """Return the seconds until it counts as stuck; not positive if it does already.

    Progress is a new pod that is created or becomes ready, a pod that begins to drain, and the
    begin or resumption of the update. A time written by a clock that was ahead counts from when
    this clock is steady.
    """
    steady = seen.clock_steady_since
    last = max(counted_from(each, steady, now) for each in _moves(seen, units, now))
    deadline = timedelta(seconds=settings.progress_deadline_seconds)
    return (min(last, now) + deadline - now).total_seconds()


def seconds_until_drained(
    units: Sequence[PodUnits], settings: RollingUpdate, now: datetime
) -> float | None:
    """Return the seconds until the time of a drain is up, None if nothing drains."""
    timeout = timedelta(seconds=settings.drain_timeout_seconds)
    ends = [
        since + timeout
        for each in units
        for unit in each.group.units
        if unit.is_leaving and (since := draining_since(each.pods[unit.name])) is not None
    ]
    waits = ((end - now).total_seconds() for end in ends)
    return min((seconds for seconds in waits if seconds > 0), default=None)


def waits_for(
    seen: ClusterObservation, units: Sequence[PodUnits], *, head_is_outdated: bool, now: datetime
) -> str:
    """Return clauses about the next step and about failed drains; may be empty."""
    lost = (_lost_again(seen, each, now) for each in units)
    waits = (_group_waits_for(each) for each in units)
    causes = list(filter(None, (*lost, *waits)))
    if not causes:
        head = live_head(seen)
        if head is None or not is_ready(head):
            causes.append("waiting for the head to be ready")
        elif head_is_outdated:
            causes.append("the head is replaced last")
    return "; ".join((*causes[:1], *_refused_drains(seen)))


def _lost_again(seen: ClusterObservation, each: PodUnits, now: datetime) -> str:
    """Return why the pods of a group are lost again and again; empty if they are not."""
    losses = seen.repeated_losses.get(worker_scope(each.group.name))
    if losses is None or each.group.is_done:
        return ""
    return lost_pod_cause(losses.last, losses.rounds, losses.next_try, now).detail


def _refused_drains(seen: ClusterObservation) -> list[str]:
    """Return why Ray has not drained nodes, be it refused or given up."""
    outcomes = seen.ray.drains.values()
    failed = sorted(why for each in outcomes if (why := unconfirmed(each)))
    return [f"workers go without having been drained: {message}" for message in failed[:1]]


def _group_waits_for(each: PodUnits) -> str:
    leaving = [unit.name for unit in each.group.units if unit.is_leaving]
    if leaving:
        return (
            f"{leaving[0]} is being drained; actors cannot be migrated: those that do not end by "
            "themselves end with its pod"
        )
    new = [u.name for u in each.group.units if u.up_to_date and u.staying and not u.available]
    if new:
        is_known = all(map(is_ready, each.pods[new[0]]))
        return f"waiting for {new[0]} to be {'listed by Ray as alive' if is_known else 'ready'}"
    going = [unit.name for unit in each.group.units if unit.gone]
    return f"waiting for {going[0]} to be gone" if going else ""


def _moves(
    seen: ClusterObservation, units: Sequence[PodUnits], now: datetime
) -> Iterator[datetime]:
    upgrading = find_condition(seen.conditions, UPGRADING) or {}
    began = time_of(upgrading.get("lastTransitionTime"))
    begins_now = upgrading.get("status") != "True" or upgrading.get("reason") == (
        Verdict.PAUSED.value
    )
    yield now if began is None or begins_now else began
    for each in units:
        for unit in each.group.units:
            pods = each.pods[unit.name]
            since = draining_since(pods)
            if since is not None:
                yield since
            elif unit.up_to_date:
                yield from filter(None, map(_became, pods))


def _became(pod: Pod) -> datetime | None:
    """Return the time when the pod was created, or became ready."""
    ready = condition(pod, "Ready")
    if ready is not None and ready.status == "True":
        return time_of(ready.last_transition_time)
    return time_of(pod.metadata.creation_timestamp)
