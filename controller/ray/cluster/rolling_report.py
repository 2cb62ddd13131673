"""What is reported of a rolling update: `Upgrading`, `status.upgrade`, and events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from controller.apimachinery.conditions import rfc3339
from controller.apimachinery.custom_object import dig
from controller.ray.api.names import UPGRADING
from controller.ray.api.pod_state import is_ready
from controller.ray.api.upgrade_strategy import ROLLING_UPDATE
from controller.ray.cluster.conditions import ClusterConditions
from controller.ray.cluster.head_and_workers import live_head
from controller.ray.cluster.observation import ClusterObservation
from controller.ray.cluster.pods import draining_since
from controller.ray.cluster.rolling_units import set_turns
from controller.ray.cluster.rollout import AT_REST, STUCK, GroupUpgrade, Rollout, Verdict
from controller.runtime.plan import Event

_ENDED = AT_REST - {Verdict.HEAD_NEEDS_FAULT_TOLERANCE}


def set_upgrading(conditions: ClusterConditions, seen: ClusterObservation) -> None:
    """Set True until no outdated pod is left, whatever keeps it; remove for other strategies."""
    rollout = seen.asked_rollout
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
    rollout = seen.asked_rollout
    keeps_it = dig(seen.cluster.spec, "upgradeStrategy", "type") == ROLLING_UPDATE
    if rollout is None or rollout.verdict is Verdict.COMPLETE or not keeps_it:
        return None
    return {"groups": [_group_status(seen, each) for each in rollout.groups.values()]}


def upgrade_events(seen: ClusterObservation) -> Iterator[Event]:
    """Yield one event for each change of the condition that users should see."""
    rollout = seen.asked_rollout
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
    units, pods = each.group.units, each.pods
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
        "desired": each.group.desired * each.hosts,
        "updated": _count(pods, updated),
        "ready": _count(pods, ready),
        "outdated": _count(pods, outdated),
    }
    leaving = (draining_since(pods[unit.name]) for unit in units if unit.is_leaving)
    since = min(filter(None, leaving), default=None)
    return status | ({"drainingSince": rfc3339(since)} if since is not None else {})


def _count(pods: Mapping[str, tuple[Any, ...]], names: Iterable[str]) -> int:
    return sum(len(pods[name]) for name in names)
