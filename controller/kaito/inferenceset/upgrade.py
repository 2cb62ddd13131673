"""Upgrades the image of an InferenceSet's servers, one replica after the other.

In place, a replica gets the label that asks its Workspace for the image, and the next one follows
when its server is ready. With a surge, a new replica is created instead, and an old one is deleted
once the new one serves, as after any scaling down. Both begin only while the maintenance window is
open. The state follows from the replicas alone, so that a restarted operator continues.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Final

from controller.apimachinery.schedule import parse_schedule, read_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from controller.kaito.api.inferenceset import (
        AutoUpgrade,
        InferenceSetSpec,
        MaintenanceWindow,
    )
    from controller.kaito.api.options import KaitoOptions
    from controller.kaito.inferenceset.observation import Replica

_SURGE: Final = "Surge"


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


def policy_of(spec: InferenceSetSpec, options: KaitoOptions) -> AutoUpgrade | None:
    """Return how the replicas get new images; None if not, as those of templates never do."""
    policy = spec.auto_upgrade
    if policy is None or not policy.enabled or "preset" not in spec.template.inference:
        return None
    return policy if options.auto_upgrade else None


def has_surge(policy: AutoUpgrade | None) -> bool:
    """Return whether replicas are upgraded by other ones."""
    return policy is not None and policy.strategy == _SURGE


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

    Args:
        policy: how the replicas are upgraded.
        desired: number of replicas that are asked for.
        replicas: its replicas.
        version: version of the new image.
        now: the time.
    """
    old = [each for each in replicas if each.on_old_image]
    if not old or len(replicas) != desired or any(each.terminating for each in replicas):
        return _NOTHING
    if not has_surge(policy) and any(map(_is_under_way(version), replicas)):
        return _NOTHING
    wait = _seconds_until_open(policy.maintenance_window, now)
    if wait is None or wait > 0:
        return UpgradeDecision(wait=wait)
    if has_surge(policy):
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
