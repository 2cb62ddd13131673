"""The conditions of the table of transitions, each a predicate of the facts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.ray.api.rayservice import UpgradeType
from controller.ray.service.rollout.facts import GoalCluster, SelectedCluster
from controller.ray.service.rollout.moves import move_back
from controller.ray.service.rollout.shares import FULL
from controller.ray.service.rollout.steps import RolloutWait

if TYPE_CHECKING:
    from controller.ray.service.rollout.facts import RolloutFacts


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
