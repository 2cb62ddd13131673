"""Decides whether an edit explains outdated pods: only then are they replaced.

An edit changes the generation of the RayCluster. A newer definition, or another operator that reads
the same specification in another way, does not (`held_deletions.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from controller.apimachinery.conditions import counted_from, time_of
from controller.kube.objects import Pod
from controller.ray.api import labels
from controller.ray.api.names import (
    PODS_UP_TO_DATE,
    UPGRADE_STRATEGY_NONE,
    UPGRADING,
)
from controller.ray.api.pod_state import condition, is_ready, ray_status
from controller.ray.api.upgrade_strategy import RollingUpdate
from controller.ray.cluster.head_and_workers import live_head
from controller.ray.cluster.held_deletions import (
    are_groups_unexplained,
    explains_rolling,
)
from controller.ray.cluster.observation import ClusterObservation, soonest
from controller.ray.cluster.pods import draining_since, pods_and_hashes, template_hash
from controller.ray.cluster.rolling_units import (
    compare,
    image_of_pod,
    image_of_template,
    image_versions,
    recorded_turns,
    unstamped_pods,
    upgrade_units,
)
from controller.ray.cluster.rollout import HELD, GroupUpgrade, Rollout, Verdict
from controller.ray.dashboard.commands import unconfirmed
from controller.ray.diagnosis.writes import lost_pod_cause
from controller.ray.head import is_gcs_fault_tolerant, worker_scope
from controller.ray.pods.hashes import is_outdated
from controller.ray.rolling import Permission, UnitGroup, next_moves, take_turns


def is_explained(seen: ClusterObservation, *, only_head: bool) -> bool:
    """Return whether an edit explains outdated pods.

    `only_head` is whether only the head is left to replace.
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
    return seen.is_recorded and seen.counted_generation == seen.recorded_generation


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
_UNEXPLAINED: Final = (
    "nothing is replaced while the groups may lack what the installed definition drops; see the "
    "conditions DefinitionComplete and DeletionHeld"
)
_HEAD_REMEDY: Final = (
    "; the workers are up to date. Set spec.gcsFaultToleranceOptions, or upgradeStrategy.type "
    "Recreate, or delete the head pod when nothing runs"
)


def with_rollout(seen: ClusterObservation) -> ClusterObservation:
    """Return the observation with the state of the rolling update."""
    rollout = decide(seen)
    return seen if rollout is None else replace(seen, rollout=rollout)


def decide(seen: ClusterObservation) -> Rollout | None:
    """Return the state of the rolling update; None without one, or without desired pods.

    With another strategy, pods that are already draining still go.
    """
    settings = seen.desired.spec.upgrade_strategy.rolling
    if seen.is_ending:
        return None
    if settings is None:
        if draining_since(seen.all_pods) is None:
            return None
        settings = RollingUpdate(paused=True)
    elif not _is_needed(seen):
        return Rollout(settings, Verdict.COMPLETE)
    head = live_head(seen)
    units, conflicts = _units(seen, settings)
    outdated = head is not None and is_outdated(
        template_hash(head), seen.desired.builder.hashes[""]
    )
    if outdated:
        _, conflict = _compare(seen, seen.desired.spec.head_group_spec.template)
        conflicts += [f"the head: {conflict}"] * bool(conflict)
    overdue_in = _seconds_until_overdue(seen, units, settings)
    return _Decision(seen, settings, units, conflicts, outdated, overdue_in).make()


def _units(
    seen: ClusterObservation, settings: RollingUpdate
) -> tuple[list[GroupUpgrade], list[str]]:
    """Return the units of each group, and which groups' new pods cannot join, with the reason."""
    found: list[GroupUpgrade] = []
    conflicts: list[str] = []
    for name, units in seen.units.items():
        if units.group.suspend:
            continue
        is_known, conflict = _compare(seen, units.group.template)
        found.append(upgrade_units(seen, units, settings, unproven=not is_known))
        if conflict and not found[-1].group.is_done:
            conflicts.append(f"group {name}: {conflict}")
    return found, conflicts


def _compare(seen: ClusterObservation, template: Mapping[str, Any]) -> tuple[bool, str]:
    """Return whether it is known if pods of a template can join, and a clause about why not."""
    head = live_head(seen)
    image = image_of_pod(head) if head is not None else ""
    running = image_versions(image)[0] if seen.ray.assumed else seen.ray.version
    version = seen.desired.spec.ray_version
    return compare(image_of_template(template), version, running=running, head_image=image)


class _Decision(Struct, frozen=True):
    """The input of the decision.

    Attributes:
        conflicts: groups whose new pods cannot join, with the reason.
        head_is_outdated: whether the head was made from another template.
        overdue_in: seconds until the lack of progress counts as stuck.
    """

    seen: ClusterObservation
    settings: RollingUpdate
    units: list[GroupUpgrade]
    conflicts: list[str]
    head_is_outdated: bool
    overdue_in: float

    def make(self) -> Rollout:
        verdict, cause = self._verdict()
        is_recorded = not (unstamped_pods(self.seen) or self.seen.awaits_revision)
        permitted = (self.seen.ray.knows_enough and is_recorded) and not (
            verdict in HELD or self.conflicts or self._is_unexplained
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

    def _group(self, units: GroupUpgrade, turns: frozenset[str]) -> GroupUpgrade:
        permission = Permission.ROLL if units.group.name in turns else Permission.HOLD
        drains = self.settings.drain_timeout_seconds > 0
        moves = next_moves(units.group, permission, drains=drains)
        return replace(units, moves=moves, surplus=_surplus(units.group, permission))

    def _verdict(self) -> tuple[Verdict, str]:
        """Return the first verdict that applies; doubtful groups never count as done."""
        if self._is_unexplained:
            return self._hindrance() or self._progress(_UNEXPLAINED)
        return self._end() or self._hindrance() or self._progress()

    def _end(self) -> tuple[Verdict, str] | None:
        """Return the verdict if nothing is left to replace, or nothing that may be replaced."""
        if not self._workers_done:
            return None
        if self.head_is_outdated:
            reason = self._why_head_stays()
            return (Verdict.HEAD_NEEDS_FAULT_TOLERANCE, reason) if reason else None
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

    def _progress(self, cause: str = "") -> tuple[Verdict, str]:
        cause = cause or _waits_for(self.seen, self.units, head_is_outdated=self.head_is_outdated)
        if self.overdue_in <= 0:
            return Verdict.PROGRESS_DEADLINE_EXCEEDED, cause
        leaving = any(unit.is_leaving for each in self.units for unit in each.group.units)
        return (Verdict.DRAINING if leaving else Verdict.ROLLING), cause

    @property
    def _is_unexplained(self) -> bool:
        return are_groups_unexplained(self.seen)

    @property
    def _workers_done(self) -> bool:
        return all(each.is_replaced for each in self.units)

    def _seconds_left(self, verdict: Verdict) -> float | None:
        is_timed = verdict in {Verdict.ROLLING, Verdict.DRAINING}
        drained = _seconds_until_drained(self.seen, self.units, self.settings)
        return soonest(drained, self.overdue_in if is_timed else None)

    def _is_served(self) -> bool:
        """Return whether the replacements do their work."""
        head = live_head(self.seen)
        return (
            head is not None and is_ready(head) and all(each.group.is_whole for each in self.units)
        )

    def _why_head_stays(self) -> str:
        """Return why an outdated head is not replaced, with the remedy; empty if it is."""
        if not is_gcs_fault_tolerant(self.seen.cluster, self.seen.desired.spec):
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


def _is_needed(seen: ClusterObservation) -> bool:
    """Return whether a pod is outdated or draining, or an update was not reported as complete."""
    if seen.condition(UPGRADING).get("status") == "True":
        return True
    return any(
        draining_since((pod,)) is not None or is_outdated(template_hash(pod), wanted)
        for pod, wanted in pods_and_hashes(seen)
    )


def _surplus(group: UnitGroup, permission: Permission) -> tuple[str, ...]:
    """Return the units for which a scale-down leaves no room.

    While old units are being replaced, the surge is not surplus, and old units are drained first.
    Otherwise old units go as well if the surge has become smaller: those that are available only
    if others that are make up the desired number less the unavailable ones of the budget.
    """
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


# What it waits for, and how long it has not advanced, which decides whether it counts as stuck.


def _seconds_until_overdue(
    seen: ClusterObservation, units: Sequence[GroupUpgrade], settings: RollingUpdate
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


def _seconds_until_drained(
    seen: ClusterObservation, units: Sequence[GroupUpgrade], settings: RollingUpdate
) -> float | None:
    """Return the seconds until the time of a drain is up, None if nothing drains."""
    timeout = timedelta(seconds=settings.drain_timeout_seconds)
    return seen.seconds_until(
        since + timeout
        for each in units
        for unit in each.group.units
        if unit.is_leaving and (since := draining_since(each.pods[unit.name])) is not None
    )


def _waits_for(
    seen: ClusterObservation, units: Sequence[GroupUpgrade], *, head_is_outdated: bool
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
    failed = (unconfirmed(outcome) for outcome in seen.ray.drains.values())
    refused = min((why for why in failed if why), default="")
    drains = f"workers go without having been drained: {refused}" if refused else ""
    return "; ".join(filter(None, (*causes[:1], drains)))


def _lost_again(seen: ClusterObservation, each: GroupUpgrade) -> str:
    """Return why the pods of a group are lost again and again; empty if they are not."""
    losses = seen.repeated_losses.get(worker_scope(each.group.name))
    if losses is None or each.group.is_done:
        return ""
    return lost_pod_cause(losses.last, losses.rounds, losses.next_try, seen.now).detail


def _group_waits_for(each: GroupUpgrade) -> str:
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
    terminating = [unit.name for unit in each.group.units if unit.gone]
    return f"waiting for {terminating[0]} to be gone" if terminating else ""


def _moves(seen: ClusterObservation, units: Sequence[GroupUpgrade]) -> Iterator[datetime]:
    upgrading = seen.condition(UPGRADING)
    began = seen.since(UPGRADING)
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
