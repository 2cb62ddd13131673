"""The conditions of the table of transitions, each a question about the facts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.ray.service.rollout.facts import Goal, Selection, Strategy
from controller.ray.service.rollout.moves import move_back
from controller.ray.service.rollout.shares import FULL
from controller.ray.service.rollout.steps import Wait

if TYPE_CHECKING:
    from controller.ray.service.rollout.facts import Facts


def always(_: Facts) -> bool:
    """The last row of a phase."""
    return True


def services_select_pending(facts: Facts) -> bool:
    """The stable services lead to the pending cluster."""
    return facts.selection is Selection.PENDING and facts.pending.exists


def pending_serves(facts: Facts) -> bool:
    """All applications of the pending cluster run, and its proxies answer."""
    return facts.pending.serves


def active_is_lost(facts: Facts) -> bool:
    """Somebody deleted the active RayCluster."""
    return not facts.active.exists


def new_cluster_is_wanted(facts: Facts) -> bool:
    """The active cluster has another specification, and the strategy allows a new one."""
    return facts.goal is Goal.OTHER and facts.strategy is not Strategy.NONE


def pending_has_taken_over(facts: Facts) -> bool:
    """The services lead to the pending cluster, and it carries everything."""
    if not services_select_pending(facts):
        return False
    return not facts.incremental or (
        facts.shares.pending_weight == FULL and facts.shares.active_capacity == 0
    )


def rollback_is_wanted(facts: Facts) -> bool:
    """An incremental upgrade leads to a specification that is no longer wanted."""
    return facts.incremental and facts.goal is not Goal.PENDING and facts.active.exists


def pending_is_unwanted(facts: Facts) -> bool:
    """The active cluster has the wanted specification again, and nothing has moved."""
    return not facts.incremental and facts.goal is Goal.ACTIVE and facts.active.exists


def pending_is_outdated(facts: Facts) -> bool:
    """The pending cluster has a specification that is no longer wanted."""
    return not facts.incremental and facts.goal is Goal.OTHER


def pending_is_the_goal(facts: Facts) -> bool:
    """The user wants the pending cluster's specification after all."""
    return facts.goal is Goal.PENDING


def is_incremental(facts: Facts) -> bool:
    """The pending cluster takes over step by step."""
    return facts.incremental


def rollback_is_impossible(facts: Facts) -> bool:
    """Somebody deleted the active RayCluster."""
    return not facts.active.exists


def active_has_everything(facts: Facts) -> bool:
    """Nothing is left to hand back."""
    return move_back(facts) is Wait.NOTHING
