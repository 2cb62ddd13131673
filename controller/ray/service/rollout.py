"""The rollout of a RayService: from each step, which facts lead where."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from controller.ray.api.rayservice import UpgradeType
from controller.ray.service.rollout_facts import (
    FULL,
    Change,
    GoalCluster,
    Move,
    RolloutFacts,
    RolloutStep,
    RolloutWait,
    SelectedCluster,
    SetActiveCapacity,
    SetPendingCapacity,
    SetPendingWeight,
    safe_weight,
)

# Moves capacity and traffic between two clusters: one small change after the other.
#
# Capacity is added before traffic follows it, and removed after traffic has left. Both capacities
# together never exceed 100 % plus the surge, and no weight exceeds the capacity of its cluster, or
# its ready part (spec: invariants I1 to I3).


def move_forward(facts: RolloutFacts) -> Move | RolloutWait:
    """Return the next change towards the pending cluster; `NOTHING` if it has taken over."""
    shares = facts.shares
    if (rescued := rescue(facts)) is not None:
        return rescued
    if not facts.route_in_force:
        return RolloutWait.GATEWAY
    if shares.pending_weight < shares.pending_capacity:
        return _shift_forward(facts)
    if shares.active_capacity == 0:
        return RolloutWait.NOTHING
    return _rebalance_forward(facts)


def move_back(facts: RolloutFacts) -> Move | RolloutWait:
    """Return the next change towards the active cluster; `NOTHING` if it has everything."""
    shares, surge = facts.shares, facts.options.surge
    if (rescued := rescue(facts)) is not None:
        return rescued
    if shares.active_weight < shares.active_capacity:
        return _shift_back(facts)
    if shares.active_capacity < FULL and shares.active_capacity + shares.pending_capacity <= FULL:
        return SetActiveCapacity(min(FULL, shares.active_capacity + surge))
    if shares.active_weight == FULL and _is_empty(facts):
        return RolloutWait.NOTHING
    if not facts.route_in_force:
        return RolloutWait.GATEWAY
    return _shrink_pending(facts)


def _shrink_pending(facts: RolloutFacts) -> SetPendingCapacity | RolloutWait:
    """Remove capacity that no request needs, in order: services, connections, replicas."""
    shares, surge = facts.shares, facts.options.surge
    if shares.pending_weight == 0 and facts.selection is SelectedCluster.PENDING:
        return RolloutWait.SERVICES
    if facts.pending.keeps_connections:
        return RolloutWait.CONNECTIONS
    return SetPendingCapacity(max(shares.pending_weight, shares.pending_capacity - surge))


def _rebalance_forward(facts: RolloutFacts) -> Move | RolloutWait:
    """Add capacity to the pending cluster, or remove surplus from the active one."""
    shares, surge = facts.shares, facts.options.surge
    if shares.active_capacity + shares.pending_capacity <= FULL:
        return SetPendingCapacity(min(FULL, shares.pending_capacity + surge))
    if shares.pending_weight == FULL and facts.selection is not SelectedCluster.PENDING:
        return RolloutWait.SERVICES
    if facts.active.keeps_connections:
        return RolloutWait.CONNECTIONS
    return SetActiveCapacity(max(shares.active_weight, shares.active_capacity - surge))


def _is_empty(facts: RolloutFacts) -> bool:
    """Return whether a complete active cluster could lose the pending one without loss."""
    if facts.shares.active_capacity < FULL:
        return False
    return facts.shares.pending_capacity == 0 or not facts.pending.has_head


def rescue(facts: RolloutFacts) -> SetPendingWeight | None:
    """Move traffic away from replicas that are no longer ready, at once."""
    weight = carrying_weight(facts)
    return None if weight == facts.shares.pending_weight else SetPendingWeight(weight)


def _shift_forward(facts: RolloutFacts) -> SetPendingWeight | RolloutWait:
    shares = facts.shares
    if not facts.pending.serves:
        return RolloutWait.PENDING_TO_SERVE
    wanted = min(shares.pending_weight + facts.options.step, shares.pending_capacity)
    weight = min(wanted, facts.pending.ready or 0)
    if weight <= shares.pending_weight:
        return RolloutWait.PENDING_CAPACITY
    return SetPendingWeight(weight) if facts.interval_passed else RolloutWait.INTERVAL


def _shift_back(facts: RolloutFacts) -> SetPendingWeight | RolloutWait:
    shares = facts.shares
    wanted = min(shares.active_weight + facts.options.step, shares.active_capacity)
    weight = min(wanted, facts.active.ready or 0)
    if weight <= shares.active_weight:
        return RolloutWait.ACTIVE_CAPACITY
    if not facts.route_in_force:
        return RolloutWait.GATEWAY
    return SetPendingWeight(FULL - weight) if facts.interval_passed else RolloutWait.INTERVAL


def carrying_weight(facts: RolloutFacts) -> int:
    """Return the pending cluster's weight nearest to the stored one that ready replicas carry."""
    return safe_weight(
        facts.shares.pending_weight,
        active_ready=facts.active.ready,
        pending_ready=facts.pending.ready,
    )


# The conditions of the table of transitions, each a predicate of the facts.


def always(_: RolloutFacts) -> bool:
    """True for all facts: the last row of a phase."""
    return True


def services_select_pending(facts: RolloutFacts) -> bool:
    """The stable services lead to the pending cluster."""
    return facts.selection is SelectedCluster.PENDING and facts.pending.exists


def pending_serves(facts: RolloutFacts) -> bool:
    """All applications of the pending cluster run, and its proxies answer."""
    return facts.pending.serves


def active_is_lost(facts: RolloutFacts) -> bool:
    """The active RayCluster was deleted."""
    return not facts.active.exists


def new_cluster_is_wanted(facts: RolloutFacts) -> bool:
    """The active cluster has another specification, and the strategy allows a new one."""
    return facts.goal is GoalCluster.OTHER and facts.strategy is not UpgradeType.NONE


def pending_has_taken_over(facts: RolloutFacts) -> bool:
    """The services lead to the pending cluster, and it carries everything."""
    if not services_select_pending(facts):
        return False
    return not facts.incremental or (
        facts.shares.pending_weight == FULL and facts.shares.active_capacity == 0
    )


def rollback_is_wanted(facts: RolloutFacts) -> bool:
    """An incremental upgrade leads to a specification that is no longer wanted."""
    return facts.incremental and facts.goal is not GoalCluster.PENDING and facts.active.exists


def pending_is_unwanted(facts: RolloutFacts) -> bool:
    """The active cluster has the wanted specification again, and nothing has moved."""
    return not facts.incremental and facts.goal is GoalCluster.ACTIVE and facts.active.exists


def pending_is_outdated(facts: RolloutFacts) -> bool:
    """The pending cluster has a specification that is no longer wanted."""
    return not facts.incremental and facts.goal is GoalCluster.OTHER


def pending_is_the_goal(facts: RolloutFacts) -> bool:
    """The user wants the pending cluster's specification after all."""
    return facts.goal is GoalCluster.PENDING


def is_incremental(facts: RolloutFacts) -> bool:
    """The pending cluster takes over step by step."""
    return facts.incremental


def requests_cannot_be_divided(facts: RolloutFacts) -> bool:
    """No gateway exists or can exist, and the user has chosen another strategy meanwhile."""
    asked = facts.strategy is UpgradeType.INCREMENTAL
    return facts.incremental and not (asked or facts.gateway_is_possible)


def rollback_is_impossible(facts: RolloutFacts) -> bool:
    """The active RayCluster was deleted."""
    return not facts.active.exists


def active_has_everything(facts: RolloutFacts) -> bool:
    """Nothing is left to hand back."""
    return move_back(facts) is RolloutWait.NOTHING


# The transition table of a RayService's rollout: it alone decides which clusters exist.
#
# Of the rows for the present phase, the first whose condition holds applies. docs/upgrades.md has a
# picture of the table.


class Phase(Enum):
    """The clusters that the status names, and the direction in which they change places."""

    EMPTY = "no cluster"
    FIRST = "first cluster"
    SERVING = "serving"
    UPGRADING = "upgrading"
    ROLLING_BACK = "rolling back"


@dataclass(frozen=True, slots=True)
class RolloutTransition:
    """One row: in `phase`, if `when` holds, perform `then`."""

    phase: Phase
    when: Callable[[RolloutFacts], bool]
    then: Change | RolloutWait | Callable[[RolloutFacts], RolloutStep]


TABLE: Final[tuple[RolloutTransition, ...]] = (
    # No cluster: the first one is prepared whatever the strategy.
    RolloutTransition(Phase.EMPTY, always, Change.PREPARE),
    # First cluster: it becomes active when it serves. A new specification replaces it before that.
    RolloutTransition(Phase.FIRST, services_select_pending, Change.PROMOTE),
    RolloutTransition(Phase.FIRST, pending_serves, RolloutWait.SERVICES),
    RolloutTransition(Phase.FIRST, pending_is_outdated, Change.REPLACE_PENDING),
    RolloutTransition(Phase.FIRST, always, RolloutWait.PENDING_TO_SERVE),
    # Serving: a new specification, or the loss of the cluster, asks for another one.
    RolloutTransition(Phase.SERVING, active_is_lost, Change.PREPARE),
    RolloutTransition(Phase.SERVING, new_cluster_is_wanted, Change.PREPARE),
    RolloutTransition(Phase.SERVING, always, RolloutWait.NOTHING),
    # Upgrading: what the services select is never given up.
    RolloutTransition(Phase.UPGRADING, pending_has_taken_over, Change.PROMOTE),
    RolloutTransition(Phase.UPGRADING, requests_cannot_be_divided, Change.STOP_DIVIDING),
    RolloutTransition(Phase.UPGRADING, rollback_is_wanted, Change.BEGIN_ROLLBACK),
    RolloutTransition(Phase.UPGRADING, pending_is_unwanted, Change.DROP_PENDING),
    RolloutTransition(Phase.UPGRADING, pending_is_outdated, Change.REPLACE_PENDING),
    RolloutTransition(Phase.UPGRADING, is_incremental, move_forward),
    RolloutTransition(Phase.UPGRADING, pending_serves, RolloutWait.SERVICES),
    RolloutTransition(Phase.UPGRADING, always, RolloutWait.PENDING_TO_SERVE),
    # Rolling back: until the active cluster has everything, unless the user changes their mind.
    RolloutTransition(Phase.ROLLING_BACK, rollback_is_impossible, Change.RESUME_UPGRADE),
    RolloutTransition(Phase.ROLLING_BACK, pending_is_the_goal, Change.RESUME_UPGRADE),
    RolloutTransition(Phase.ROLLING_BACK, requests_cannot_be_divided, Change.STOP_DIVIDING),
    RolloutTransition(Phase.ROLLING_BACK, active_has_everything, Change.DROP_PENDING),
    RolloutTransition(Phase.ROLLING_BACK, always, move_back),
)


def phase_of(facts: RolloutFacts) -> Phase:
    """Return the phase that the clusters in the status define."""
    if not facts.active.recorded:
        return Phase.FIRST if facts.pending.recorded else Phase.EMPTY
    if not facts.pending.recorded:
        return Phase.SERVING
    return Phase.ROLLING_BACK if facts.rolling_back else Phase.UPGRADING


def next_step(facts: RolloutFacts) -> RolloutStep:
    """Return the step that is due now: a change, a move, or something to wait for."""
    for row in _ROWS[phase_of(facts)]:
        if row.when(facts):
            return row.then if isinstance(row.then, Change | RolloutWait) else row.then(facts)
    raise AssertionError("every phase ends with a row that always holds")


_ROWS: Final = {phase: tuple(row for row in TABLE if row.phase is phase) for phase in Phase}


# The cluster to which the stable services lead.

_STEPWISE = frozenset({Phase.UPGRADING, Phase.ROLLING_BACK})


def wanted_selection(facts: RolloutFacts) -> SelectedCluster:
    """Return the cluster that the services should select.

    In an incremental upgrade they select the pending cluster when it has all of the traffic.
    Otherwise they select it when nothing else is missing for it to take over.
    """
    if facts.incremental and phase_of(facts) in _STEPWISE:
        return _of_traffic(facts)
    step = next_step(facts)
    if step is RolloutWait.SERVICES or step is Change.PROMOTE:
        return SelectedCluster.PENDING
    return SelectedCluster.ACTIVE if facts.active.recorded else facts.selection


def _of_traffic(facts: RolloutFacts) -> SelectedCluster:
    """Return the cluster that has got the traffic, if it certainly has ready replicas."""
    wanted, cluster = SelectedCluster.ACTIVE, facts.active
    if carrying_weight(facts) == FULL:
        wanted, cluster = SelectedCluster.PENDING, facts.pending
    return (
        wanted if cluster.ready or facts.selection is SelectedCluster.NEITHER else facts.selection
    )
