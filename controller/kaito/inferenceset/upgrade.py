"""Upgrades the image of an InferenceSet's servers, and replaces drifted nodes, replica by replica.

In place, a replica gets the label that asks its Workspace for the image, and the next one follows
when its server is ready. With a surge, a new replica is created instead, and an old one is deleted
once the new one serves, as after any scaling down. Both begin only while the maintenance window is
open. The state follows from the replicas alone, so that a restarted operator continues.

The budget of each NodePool holds Karpenter back. It is opened for the pool of one replica, and
closed when none of its nodes has drifted any more and the replica serves again.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from controller.apimachinery.schedule import parse_schedule, read_duration
from controller.kaito.api.karpenter import NODE_POOLS
from controller.runtime.plan import Event, JsonPatch, Target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from controller.kaito.api.inferenceset import AutoUpgrade, MaintenanceWindow
    from controller.kaito.inferenceset.observe import Replica, ReplicaPool


@dataclass(frozen=True, slots=True)
class UpgradeDecision:
    """The next step of an upgrade.

    Attributes:
        replica: the replica to upgrade in place.
        surge: whether one more replica is created.
        wait: seconds until the maintenance window opens, if only that is missing.
    """

    replica: Replica | None = None
    surge: bool = False
    wait: float | None = None


_NOTHING: Final = UpgradeDecision()


def drifted(replicas: Sequence[Replica], version: str) -> int:
    """Return how many replicas have an old image, or are not ready yet with the new one."""
    return sum(
        each.on_old_image or (each.upgraded_to == version and not each.has_ready_server)
        for each in replicas
        if not each.terminating
    )


def next_upgrade(
    policy: AutoUpgrade, desired: int, replicas: Sequence[Replica], version: str, now: datetime
) -> UpgradeDecision:
    """Return the next step towards the new image.

    Nothing begins while the number of replicas is another one than asked for, or one is on its way.
    """
    old = [each for each in replicas if each.on_old_image]
    if not old or len(replicas) != desired or any(each.terminating for each in replicas):
        return _NOTHING
    if not policy.has_surge and any(map(_is_under_way(version), replicas)):
        return _NOTHING
    wait = _seconds_until_open(policy.maintenance_window, now)
    if wait is None or wait > 0:
        return UpgradeDecision(wait=wait)
    if policy.has_surge:
        return UpgradeDecision(surge=True)
    return UpgradeDecision(min(old, key=lambda each: (each.ready, each.name)))


def _is_under_way(version: str) -> Callable[[Replica], bool]:
    """Return a test of replicas: asked for the image, or on it and not ready yet."""

    def found(each: Replica) -> bool:
        return each.upgraded_to == version if each.on_old_image else not each.has_ready_server

    return found


def _seconds_until_open(window: MaintenanceWindow | None, now: datetime) -> float | None:
    """Return the seconds until the maintenance window opens, 0 while it is; None for never."""
    if window is None:
        return 0.0
    schedule, length = parse_schedule(window.schedule), read_duration(window.duration)
    if schedule.latest(now - timedelta(seconds=float(length)), now, UTC) is not None:
        return 0.0
    opening = schedule.next_after(now, UTC)
    return None if opening is None else (opening - now).total_seconds()


_CLOSED: Final = "0"
_OPEN: Final = "1"


def next_budget(
    pools: Sequence[ReplicaPool], replicas: Sequence[Replica], namespace: str, scope: str
) -> Iterator[JsonPatch]:
    """Yield the change of a budget that is due.

    Budgets that a person has chosen stay, and so do those of pools of other Workspaces.
    """
    is_ready = {each.name: each.ready for each in replicas if not each.terminating}
    own = [pool for pool in pools if pool.workspace in is_ready]
    opened = next((pool for pool in own if pool.nodes == _OPEN), None)
    if opened is not None:
        if is_ready[opened.workspace] and not opened.has_drifted:
            note = f"Drift replacement complete for workspace {namespace}/{opened.workspace}"
            yield _change(opened, _CLOSED, Event("Normal", "DriftComplete", "Drift", note), scope)
        return
    drifted = next((pool for pool in own if pool.has_drifted and pool.nodes == _CLOSED), None)
    if drifted is not None:
        note = f"Started drift replacement for workspace {namespace}/{drifted.workspace}"
        yield _change(drifted, _OPEN, Event("Normal", "DriftStarted", "Drift", note), scope)


def _change(pool: ReplicaPool, nodes: str, event: Event, scope: str) -> JsonPatch:
    path = f"/spec/disruption/budgets/{pool.position}/nodes"
    operations: tuple[Mapping[str, str], ...] = (
        {"op": "test", "path": "/metadata/uid", "value": pool.uid},
        {"op": "test", "path": path, "value": pool.nodes},
        {"op": "replace", "path": path, "value": nodes},
    )
    target = Target(NODE_POOLS, "", pool.name, scope)
    return JsonPatch(target, pool.uid, operations, on_success=event)
