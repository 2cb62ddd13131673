"""Decides whether an edit explains outdated pods: only then are they replaced.

An edit changes the generation of the RayCluster. A newer definition, or another operator that reads
the same specification in another way, does not (`held_deletions.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from controller.kube.objects import Pod
from controller.ray.api import labels
from controller.ray.api.names import (
    HEAD_POD_READY,
    PODS_UP_TO_DATE,
    UPGRADE_STRATEGY_NONE,
    UPGRADING,
)
from controller.ray.api.pod_state import is_announced, is_ready, ray_status
from controller.ray.api.upgrade_strategy import RollingUpdate
from controller.ray.cluster.head_and_workers import live_head
from controller.ray.cluster.held_deletions import (
    doubts_groups,
    explains_rolling,
)
from controller.ray.cluster.observation import ClusterObservation, DesiredCluster, soonest
from controller.ray.cluster.pods import draining_since, pods_and_hashes, template_hash
from controller.ray.cluster.rolling_report import (
    seconds_until_drained,
    seconds_until_overdue,
    waits_for,
)
from controller.ray.cluster.rolling_units import (
    Compatibility,
    ImageVersion,
    RunningRay,
    image_of_pod,
    image_of_template,
    recorded_turns,
    unstamped_pods,
    upgrade_units,
)
from controller.ray.cluster.rollout import HELD, GroupUpgrade, PodUnits, Rollout, Verdict
from controller.ray.head import is_gcs_fault_tolerant
from controller.ray.pods.hashes import is_outdated
from controller.ray.rolling import Permission, next_moves, take_turns


def is_explained(seen: ClusterObservation, *, only_head: bool) -> bool:
    """Return whether an edit explains outdated pods.

    Args:
        seen: the cluster.
        only_head: whether only the head is left to replace.
    """
    if not explains_rolling(seen.definition):
        return False
    return (
        _is_under_way(seen, only_head=only_head)
        or _was_reported_before(seen)
        or not _is_recorded(seen)
    )


def _is_under_way(seen: ClusterObservation, *, only_head: bool) -> bool:
    upgrading = seen.condition(UPGRADING)
    waits_for_head = upgrading.get("reason") == Verdict.HEAD_NEEDS_FAULT_TOLERANCE.value
    return upgrading.get("status") == "True" and (only_head or not waits_for_head)


def _was_reported_before(seen: ClusterObservation) -> bool:
    """Return whether pods were outdated before the annotation asked for rolling updates."""
    found = seen.condition(PODS_UP_TO_DATE)
    return found.get("status") == "False" and found.get("reason") == UPGRADE_STRATEGY_NONE


def _is_recorded(seen: ClusterObservation) -> bool:
    """Return whether the pods of the present generation were already counted.

    A refused specification is observed but not counted.
    """
    counted = seen.condition(HEAD_POD_READY).get("observedGeneration")
    return seen.is_recorded and counted == seen.recorded_generation


# The decision about the next step of a rolling update: read `decide`, then `_Decision`.
#
# Pure: it follows from the observation and the time.

_REMEDY: Final = (
    "nodes of different versions do not join one cluster: set upgradeStrategy.type to Recreate, or "
    "bring the new version up as another cluster, as a RayClusterFleet does"
)
_SILENCE: Final = (
    "nothing is replaced while the dashboard of the head does not answer; see the log of its pod"
)
_DOUBT: Final = (
    "nothing is replaced while the groups may lack what the installed definition drops; see the "
    "conditions DefinitionComplete and DeletionHeld"
)
_HEAD_REMEDY: Final = (
    "; the workers are up to date. Set spec.gcsFaultToleranceOptions, or upgradeStrategy.type "
    "Recreate, or delete the head pod when nothing runs"
)


def with_rollout(seen: ClusterObservation) -> ClusterObservation:
    """Return the observation with the state of the rolling update."""
    return replace(seen, rollout=decide(seen))


def decide(seen: ClusterObservation) -> Rollout | None:
    """Return the state of the rolling update; None without one, or without desired pods.

    With another strategy, pods that are already draining still go.
    """
    settings = seen.desired.spec.upgrade_strategy.rolling
    if seen.is_ending:
        return None
    if settings is None:
        if not any(draining_since((pod,)) for pod in seen.all_pods):
            return None
        settings = RollingUpdate(paused=True)
    elif not _is_needed(seen):
        return Rollout(settings, Verdict.COMPLETE)
    head = live_head(seen)
    running = _running_ray(seen, head)
    units, conflicts = _units(seen, settings, running)
    outdated = head is not None and is_outdated(
        template_hash(head), seen.desired.builder.hashes[""]
    )
    if outdated:
        image = image_of_template(seen.desired.spec.head_group_spec.template)
        conflict = running.compare(image, seen.desired.spec.ray_version)[1]
        conflicts += [f"the head: {conflict}"] * bool(conflict)
    overdue_in = seconds_until_overdue(seen, units, settings)
    return _Decision(
        seen, seen.desired, settings, tuple(units), conflicts, outdated, seen.now, overdue_in
    ).make()


def _running_ray(seen: ClusterObservation, head: Pod | None) -> RunningRay:
    image = image_of_pod(head) if head is not None else ""
    version = ImageVersion.of(image).ray if seen.ray.assumed else seen.ray.version
    return RunningRay(version, image)


def _units(
    seen: ClusterObservation,
    settings: RollingUpdate,
    running: RunningRay,
) -> tuple[list[PodUnits], list[str]]:
    """Return the units of each group, and which groups' new pods cannot join, with the reason."""
    units: list[PodUnits] = []
    conflicts: list[str] = []
    for group in seen.desired.spec.worker_group_specs:
        if group.suspend:
            continue
        image = image_of_template(group.template)
        compatibility, conflict = running.compare(image, seen.desired.spec.ray_version)
        units.append(
            upgrade_units(
                seen,
                group,
                settings,
                wanted_hash=seen.desired.builder.hashes[group.group_name],
                unproven=compatibility is Compatibility.UNKNOWN,
            )
        )
        if conflict and not units[-1].group.is_done:
            conflicts.append(f"group {group.group_name}: {conflict}")
    return units, conflicts


@dataclass(frozen=True, slots=True)
class _Decision:
    """The input of the decision.

    Attributes:
        seen: the observed cluster.
        desired: the desired cluster.
        settings: settings of the rolling update.
        units: units of each group.
        conflicts: groups whose new pods cannot join, with the reason.
        head_is_outdated: whether the head was made from another template.
        now: the time.
        overdue_in: seconds until the lack of progress counts as stuck.
    """

    seen: ClusterObservation
    desired: DesiredCluster
    settings: RollingUpdate
    units: tuple[PodUnits, ...]
    conflicts: list[str]
    head_is_outdated: bool
    now: datetime
    overdue_in: float

    def make(self) -> Rollout:
        verdict, cause = self._verdict()
        permitted = self.seen.ray.knows_enough and not (
            verdict in HELD or self.conflicts or self._in_doubt or self._awaits_writes()
        )
        at_a_time = self.settings.max_parallel_groups if permitted else 0
        recorded = recorded_turns(self.seen)
        turns = take_turns([each.group for each in self.units], at_a_time, recorded)
        return Rollout(
            self.settings,
            verdict,
            cause,
            {each.group.name: self._group(each, turns.now & recorded) for each in self.units},
            self.head_is_outdated,
            replaces_head=permitted and not turns.begun and self._head_is_due(),
            seconds_left=self._seconds_left(verdict),
            begun=turns.begun,
        )

    def _group(self, units: PodUnits, turns: frozenset[str]) -> GroupUpgrade:
        permission = Permission.ROLL if units.group.name in turns else Permission.HOLD
        drains = self.settings.drain_timeout_seconds > 0
        moves = next_moves(units.group, permission, drains=drains)
        return GroupUpgrade(units, moves, _surplus(units, permission))

    def _verdict(self) -> tuple[Verdict, str]:
        """Return the first verdict that applies; doubtful groups never count as done."""
        if self._in_doubt:
            return self._hindrance() or self._progress(_DOUBT)
        return self._end() or self._hindrance() or self._progress()

    def _end(self) -> tuple[Verdict, str] | None:
        """Return the verdict if nothing is left to replace, or nothing that may be replaced."""
        if not self._workers_done:
            return None
        if self.head_is_outdated:
            words = self._why_head_stays()
            return (Verdict.HEAD_NEEDS_FAULT_TOLERANCE, words) if words else None
        if not self.seen.is_true(UPGRADING) or self._is_served():
            return Verdict.COMPLETE, ""
        return None

    def _hindrance(self) -> tuple[Verdict, str] | None:
        """Return the verdict for an obstacle that time alone does not remove."""
        if not is_explained(self.seen, only_head=self._workers_done):
            return Verdict.NOT_EXPLAINED, "the specification was not edited"
        if self.settings.paused:
            return Verdict.PAUSED, "it is paused; set rollingUpdate.paused to false to continue"
        conflict = "; ".join(self.conflicts) or self._failed_trial()
        if conflict:
            return Verdict.INCOMPATIBLE_VERSIONS, f"{conflict}; {_REMEDY}"
        if self.seen.ray.silence:
            return Verdict.RAY_DOES_NOT_ANSWER, f"{_SILENCE}: {self.seen.ray.silence}"
        return None

    def _progress(self, doubt: str = "") -> tuple[Verdict, str]:
        cause = doubt or waits_for(self.seen, self.units, head_is_outdated=self.head_is_outdated)
        if self.overdue_in <= 0:
            return Verdict.PROGRESS_DEADLINE_EXCEEDED, cause
        leaving = any(unit.is_leaving for each in self.units for unit in each.group.units)
        return (Verdict.DRAINING if leaving else Verdict.ROLLING), cause

    @property
    def _in_doubt(self) -> bool:
        return doubts_groups(self.seen)

    @property
    def _workers_done(self) -> bool:
        return all(map(_is_done, self.units))

    def _seconds_left(self, verdict: Verdict) -> float | None:
        is_timed = verdict in {Verdict.ROLLING, Verdict.DRAINING}
        drained = seconds_until_drained(self.seen, self.units, self.settings)
        return soonest(drained, self.overdue_in if is_timed else None)

    def _awaits_writes(self) -> bool:
        """Return whether the pods' templates are still to be recorded."""
        return bool(unstamped_pods(self.seen)) or self.seen.awaits_revision

    def _is_served(self) -> bool:
        """Return whether the replacements do their work."""
        head = live_head(self.seen)
        return (
            head is not None and is_ready(head) and all(each.group.is_whole for each in self.units)
        )

    def _why_head_stays(self) -> str:
        """Return why an outdated head is not replaced, with the remedy; empty if it is."""
        if not is_gcs_fault_tolerant(self.seen.cluster, self.desired.spec):
            why = "is not replaced, because without GCS fault tolerance all work ends with it"
        elif (self.seen.cluster.metadata.annotations or {}).get(
            labels.DISABLE_HEAD_RESTART
        ) == "true":
            why = f"is not replaced, because of the annotation {labels.DISABLE_HEAD_RESTART}"
        else:
            return ""
        return f"it {why}{_HEAD_REMEDY}"

    def _head_is_due(self) -> bool:
        """Return whether all else is done; a head that stays has a verdict that permits nothing."""
        enough = all(each.group.has_enough for each in self.units)
        return self.head_is_outdated and self._workers_done and enough

    def _failed_trial(self) -> str:
        """Return the pod of an image of unknown version that could not join; empty if none."""
        for each in self.units:
            if not each.group.unproven or each.group.is_done:
                continue
            for unit in each.group.units:
                if not (unit.up_to_date and unit.staying) or unit.available:
                    continue
                pods = each.pods[unit.name]
                if any(map(_has_ended, pods)) or self.overdue_in <= 0:
                    return (
                        f"pod {pods[0].metadata.name}, the first one of the new template of group "
                        f"{each.group.name}, could not join the cluster"
                    )
        return ""


def _is_done(each: PodUnits) -> bool:
    """Return whether nothing is left to replace but what is drained because it is taken away."""
    return each.group.is_done or not any(
        unit.is_old or (unit.is_leaving and not any(map(is_announced, each.pods[unit.name])))
        for unit in each.group.units
    )


def _is_needed(seen: ClusterObservation) -> bool:
    """Return whether a pod is outdated or draining, or an update was not reported as complete."""
    if seen.condition(UPGRADING).get("status") == "True":
        return True
    return any(
        draining_since((pod,)) is not None or is_outdated(template_hash(pod), wanted)
        for pod, wanted in pods_and_hashes(seen)
    )


def _surplus(units: PodUnits, permission: Permission) -> tuple[str, ...]:
    """Return the units for which a scale-down leaves no room.

    While old units are being replaced, the surge is not surplus, and old units are drained first.
    Otherwise old units go as well if the surge has become smaller: those that are available only
    if others that are make up the desired number less the unavailable ones of the budget.
    """
    group = units.group
    new = [unit for unit in group.units if unit.staying and unit.up_to_date]
    surplus = [unit.name for unit in new[: max(0, len(new) - group.desired)]]
    if permission is Permission.ROLL:
        return tuple(surplus)
    old = sorted((unit for unit in group.units if unit.is_old), key=lambda unit: unit.serves)
    room = group.desired + (group.budget.surge if new else 0)
    more = len(new) + len(old) - len(surplus) - room
    least = group.desired - group.budget.unavailable
    spare = len(old) + sum(unit.available for unit in new) - least
    return (*surplus, *[unit.name for unit in old[: max(0, min(more, spare))]])


def _has_ended(pod: Pod) -> bool:
    """Return whether its Ray container has ended, for good or to be restarted."""
    status = ray_status(pod)
    return status is not None and bool(status.restart_count or status.state.terminated)
