"""What is reported of a rolling update: its progress, `Upgrading`, `status.upgrade`, and events.

What it waits for, and how long it has not advanced, decides whether it counts as stuck.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from controller.apimachinery.conditions import counted_from, rfc3339, time_of
from controller.apimachinery.custom_object import dig
from controller.kube.objects import Pod
from controller.ray.api.names import UPGRADING
from controller.ray.api.pod_state import condition, is_ready
from controller.ray.api.upgrade_strategy import ROLLING_UPDATE, RollingUpdate
from controller.ray.cluster.conditions import ClusterConditions
from controller.ray.cluster.head_and_workers import live_head
from controller.ray.cluster.observation import ClusterObservation
from controller.ray.cluster.pods import draining_since
from controller.ray.cluster.rolling_units import set_turns
from controller.ray.cluster.rollout import AT_REST, STUCK, GroupUpgrade, PodUnits, Rollout, Verdict
from controller.ray.dashboard import unconfirmed
from controller.ray.diagnosis.writes import lost_pod_cause
from controller.ray.head import worker_scope
from controller.runtime.plan import Event


def seconds_until_overdue(
    seen: ClusterObservation, units: Sequence[PodUnits], settings: RollingUpdate
) -> float:
    """Return the seconds until it counts as stuck; not positive if it does already.

    Progress is a new pod that is created or becomes ready, a pod that begins to drain, and the
    begin or resumption of the update. A time written by a clock that was ahead counts from when
    this clock is steady.
    """
    steady = seen.clock_steady_since
    last = max(counted_from(each, steady, seen.now) for each in _moves(seen, units))
    deadline = timedelta(seconds=settings.progress_deadline_seconds)
    return (min(last, seen.now) + deadline - seen.now).total_seconds()


def seconds_until_drained(
    seen: ClusterObservation, units: Sequence[PodUnits], settings: RollingUpdate
) -> float | None:
    """Return the seconds until the time of a drain is up, None if nothing drains."""
    timeout = timedelta(seconds=settings.drain_timeout_seconds)
    return seen.seconds_until(
        since + timeout
        for each in units
        for unit in each.group.units
        if unit.is_leaving and (since := draining_since(each.pods[unit.name])) is not None
    )


def waits_for(
    seen: ClusterObservation, units: Sequence[PodUnits], *, head_is_outdated: bool
) -> str:
    """Return clauses about the next step and about failed drains; may be empty."""
    lost = (_lost_again(seen, each) for each in units)
    waits = (_group_waits_for(each) for each in units)
    causes = list(filter(None, (*lost, *waits)))
    if not causes:
        head = live_head(seen)
        if head is None or not is_ready(head):
            causes.append("waiting for the head to be ready")
        elif head_is_outdated:
            causes.append("the head is replaced last")
    return "; ".join((*causes[:1], *_refused_drains(seen)))


def _lost_again(seen: ClusterObservation, each: PodUnits) -> str:
    """Return why the pods of a group are lost again and again; empty if they are not."""
    losses = seen.repeated_losses.get(worker_scope(each.group.name))
    if losses is None or each.group.is_done:
        return ""
    return lost_pod_cause(losses.last, losses.rounds, losses.next_try, seen.now).detail


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


def _moves(seen: ClusterObservation, units: Sequence[PodUnits]) -> Iterator[datetime]:
    upgrading = seen.condition(UPGRADING)
    began = time_of(upgrading.get("lastTransitionTime"))
    begins_now = upgrading.get("status") != "True" or upgrading.get("reason") == (
        Verdict.PAUSED.value
    )
    yield seen.now if began is None or begins_now else began
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


_ENDED = AT_REST - {Verdict.HEAD_NEEDS_FAULT_TOLERANCE}


def set_upgrading(conditions: ClusterConditions, seen: ClusterObservation) -> None:
    """Set True until no outdated pod is left, whatever keeps it; remove for other strategies."""
    rollout = _rollout(seen)
    set_turns(conditions, rollout.begun if rollout is not None else ())
    if rollout is None:
        if seen.desired.spec.upgrade_strategy.rolling is None:
            conditions.remove(UPGRADING)
        return
    before = seen.condition(UPGRADING)
    if before.get("reason") == Verdict.PAUSED.value and rollout.verdict is not Verdict.PAUSED:
        conditions.remove(UPGRADING)  # the progress deadline begins anew
    status = "False" if rollout.verdict in _ENDED else "True"
    conditions.set(UPGRADING, status, rollout.verdict.value, _message(seen, rollout))


def upgrade_status(seen: ClusterObservation) -> dict[str, Any] | None:
    """Return `status.upgrade`; None while idle, or where the definition would drop it."""
    rollout = _rollout(seen)
    keeps_it = dig(seen.cluster.spec, "upgradeStrategy", "type") == ROLLING_UPDATE
    if rollout is None or rollout.verdict is Verdict.COMPLETE or not keeps_it:
        return None
    return {"groups": [_group_status(seen, each) for each in rollout.groups.values()]}


def upgrade_events(seen: ClusterObservation) -> Iterator[Event]:
    """Yield one event for each change of the condition that users should see."""
    rollout = _rollout(seen)
    if rollout is None:
        return
    before = seen.condition(UPGRADING)
    was_under_way = before.get("status") == "True"
    if before.get("reason") == rollout.verdict.value:
        return
    message = _message(seen, rollout)
    if rollout.verdict is Verdict.COMPLETE:
        if was_under_way:
            yield _event("UpgradeComplete", message)
        return
    if not was_under_way and rollout.verdict not in AT_REST:
        yield _event("UpgradeStarted", message)
    if rollout.verdict is Verdict.PAUSED:
        yield _event("UpgradePaused", message)
    elif rollout.verdict in STUCK:
        yield Event("Warning", "UpgradeStuck", "Reconcile", message, quotes=True)
    elif before.get("reason") == Verdict.PAUSED.value and was_under_way:
        yield _event("UpgradeResumed", message)


def _event(reason: str, note: str) -> Event:
    return Event("Normal", reason, "Reconcile", note)


def _rollout(seen: ClusterObservation) -> Rollout | None:
    """Return the rollout that the user asks for; None for what is left under another strategy."""
    return seen.rollout if seen.desired.spec.upgrade_strategy.rolling is not None else None


def _message(seen: ClusterObservation, rollout: Rollout) -> str:
    if rollout.verdict is Verdict.COMPLETE:
        return "all pods were created from the present templates"
    counts = [
        _counts(seen, each)
        for name, each in rollout.groups.items()
        if name in rollout.begun or not _is_settled(each)
    ]
    if rollout.head_is_outdated:
        head = live_head(seen)
        name = f" {head.metadata.name}" if head is not None else ""
        counts.append(f"head{name} is outdated")
    return "; ".join(filter(None, (*counts, rollout.cause)))


def _is_settled(each: GroupUpgrade) -> bool:
    return each.group.is_done and all(unit.up_to_date for unit in each.group.units)


def _counts(seen: ClusterObservation, each: GroupUpgrade) -> str:
    status = _group_status(seen, each)
    words = (
        f"group {status['name']}: {status['updated']} of {status['desired']} pods updated, "
        f"{status['ready']} ready, {status['outdated']} outdated"
    )
    since = status.get("drainingSince")
    return f"{words}, draining since {since}" if since else words


def _group_status(seen: ClusterObservation, each: GroupUpgrade) -> dict[str, Any]:
    """Return the numbers of a group; a pod's own condition counts while Ray is not asked."""
    units, pods = each.group.units, each.units.pods
    updated = [unit.name for unit in units if unit.up_to_date and not unit.draining]
    outdated = [unit.name for unit in units if not unit.up_to_date or unit.draining]
    ready = [
        unit.name
        for unit in units
        if unit.serves
        or (unit.staying and not seen.ray.answers and all(map(is_ready, pods[unit.name])))
    ]
    status: dict[str, Any] = {
        "name": each.group.name,
        "desired": each.group.desired * each.units.hosts,
        "updated": _count(pods, updated),
        "ready": _count(pods, ready),
        "outdated": _count(pods, outdated),
    }
    leaving = (draining_since(pods[unit.name]) for unit in units if unit.is_leaving)
    since = min(filter(None, leaving), default=None)
    return status | ({"drainingSince": rfc3339(since)} if since is not None else {})


def _count(pods: Mapping[str, tuple[Any, ...]], names: Iterable[str]) -> int:
    return sum(len(pods[name]) for name in names)
