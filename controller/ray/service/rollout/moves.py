"""Moves capacity and traffic between two clusters: one small change after the other.

Capacity is added before traffic follows it, and removed after traffic has left. Both capacities
together never exceed 100 % plus the surge, and no weight exceeds the capacity of its cluster, or
its ready part (spec: invariants I1 to I3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.ray.service.rollout.facts import SelectedCluster
from controller.ray.service.rollout.shares import FULL, safe_weight
from controller.ray.service.rollout.steps import (
    RolloutWait,
    SetActiveCapacity,
    SetPendingCapacity,
    SetPendingWeight,
)

if TYPE_CHECKING:
    from controller.ray.service.rollout.facts import RolloutFacts
    from controller.ray.service.rollout.steps import Move


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
