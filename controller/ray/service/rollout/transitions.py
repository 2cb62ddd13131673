"""The transition table of a RayService's rollout: it alone decides which clusters exist.

Of the rows for the present phase, the first whose condition holds applies. docs/upgrades.md has a
picture of the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from controller.ray.service.rollout import predicates as when
from controller.ray.service.rollout.moves import move_back, move_forward
from controller.ray.service.rollout.steps import Change, RolloutWait

if TYPE_CHECKING:
    from collections.abc import Callable

    from controller.ray.service.rollout.facts import RolloutFacts
    from controller.ray.service.rollout.steps import RolloutStep


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
    RolloutTransition(Phase.EMPTY, when.always, Change.PREPARE),
    # First cluster: it becomes active when it serves. A new specification replaces it before that.
    RolloutTransition(Phase.FIRST, when.services_select_pending, Change.PROMOTE),
    RolloutTransition(Phase.FIRST, when.pending_serves, RolloutWait.SERVICES),
    RolloutTransition(Phase.FIRST, when.pending_is_outdated, Change.REPLACE_PENDING),
    RolloutTransition(Phase.FIRST, when.always, RolloutWait.PENDING_TO_SERVE),
    # Serving: a new specification, or the loss of the cluster, asks for another one.
    RolloutTransition(Phase.SERVING, when.active_is_lost, Change.PREPARE),
    RolloutTransition(Phase.SERVING, when.new_cluster_is_wanted, Change.PREPARE),
    RolloutTransition(Phase.SERVING, when.always, RolloutWait.NOTHING),
    # Upgrading: what the services select is never given up.
    RolloutTransition(Phase.UPGRADING, when.pending_has_taken_over, Change.PROMOTE),
    RolloutTransition(Phase.UPGRADING, when.requests_cannot_be_divided, Change.STOP_DIVIDING),
    RolloutTransition(Phase.UPGRADING, when.rollback_is_wanted, Change.BEGIN_ROLLBACK),
    RolloutTransition(Phase.UPGRADING, when.pending_is_unwanted, Change.DROP_PENDING),
    RolloutTransition(Phase.UPGRADING, when.pending_is_outdated, Change.REPLACE_PENDING),
    RolloutTransition(Phase.UPGRADING, when.is_incremental, move_forward),
    RolloutTransition(Phase.UPGRADING, when.pending_serves, RolloutWait.SERVICES),
    RolloutTransition(Phase.UPGRADING, when.always, RolloutWait.PENDING_TO_SERVE),
    # Rolling back: until the active cluster has everything, unless the user changes their mind.
    RolloutTransition(Phase.ROLLING_BACK, when.rollback_is_impossible, Change.RESUME_UPGRADE),
    RolloutTransition(Phase.ROLLING_BACK, when.pending_is_the_goal, Change.RESUME_UPGRADE),
    RolloutTransition(Phase.ROLLING_BACK, when.requests_cannot_be_divided, Change.STOP_DIVIDING),
    RolloutTransition(Phase.ROLLING_BACK, when.active_has_everything, Change.DROP_PENDING),
    RolloutTransition(Phase.ROLLING_BACK, when.always, move_back),
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
