"""The rollout of a RayService: its facts, and from each step, which of them lead where."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final, TypeAlias

from msgspec import Struct, field

from controller.ray.api.rayservice import UpgradeType

# The capacities and weights of the two clusters of a RayService, in percent.

FULL: Final = 100


class Shares(Struct, frozen=True):
    """The capacity requested of each cluster, and the traffic that it carries.

    Attributes:
        active_capacity: Serve's `target_capacity` of the active cluster.
        pending_capacity: Serve's `target_capacity` of the pending cluster.
        pending_weight: share of the traffic that is routed to the pending cluster; the rest goes
            to the active one.
    """

    active_capacity: int = FULL
    pending_capacity: int = 0
    pending_weight: int = 0

    @property
    def active_weight(self) -> int:
        """Share of the traffic that is routed to the active cluster."""
        return FULL - self.pending_weight


def safe_weight(weight: int, *, active_ready: int | None, pending_ready: int | None) -> int:
    """Return the pending cluster's weight nearest to `weight` that ready replicas can carry.

    A cluster of unknown readiness keeps its weight and gets no more. If both clusters together
    cannot carry everything, each gets a weight in proportion to its ready part. Nothing changes
    while nothing is ready.

    Args:
        weight: weight of the pending cluster.
        active_ready: ready percentage of the full size; None if unknown.
        pending_ready: the same for the pending cluster.
    """
    least = weight if active_ready is None else FULL - active_ready
    most = weight if pending_ready is None else pending_ready
    if least <= most:
        return min(max(weight, least), most)
    total = FULL - least + most
    return weight if total == 0 else FULL * most // total


# The steps of a rollout; at most one is due at a time, and each is stored before its effects.


class Change(Enum):
    """A change of the clusters' roles."""

    PREPARE = "choose a name for a new pending cluster"
    REPLACE_PENDING = "choose a name for another pending cluster; the present one is deleted"
    PROMOTE = "make the pending cluster the active one"
    DROP_PENDING = "give up the pending cluster"
    STOP_DIVIDING = "forget capacities and weights: the services switch when all is ready"
    BEGIN_ROLLBACK = "hand everything back to the active cluster"
    RESUME_UPGRADE = "go on with the upgrade"


class SetActiveCapacity(Struct, frozen=True):
    """Change the capacity of the active cluster to `percent`."""

    percent: int


class SetPendingCapacity(Struct, frozen=True):
    """Change the capacity of the pending cluster to `percent`."""

    percent: int


class SetPendingWeight(Struct, frozen=True):
    """Route `percent` of the traffic to the pending cluster, and the rest to the active one."""

    percent: int


class RolloutWait(Enum):
    """The event that the rollout waits for."""

    NOTHING = "nothing: the rollout is complete"
    PENDING_TO_SERVE = "the pending cluster to serve all its applications"
    PENDING_CAPACITY = "replicas of the pending cluster to become ready"
    ACTIVE_CAPACITY = "replicas of the active cluster to become ready"
    INTERVAL = "the interval between two changes of the weights"
    GATEWAY = "the gateway to route by the present weights"
    SERVICES = "the services to select the cluster that takes over"
    CONNECTIONS = "the proxies of the cluster without requests to close their connections"


Move: TypeAlias = SetActiveCapacity | SetPendingCapacity | SetPendingWeight
RolloutStep: TypeAlias = Change | Move | RolloutWait


# The facts on which a rollout depends: enumerations, booleans and percentages.
#
# Names, times and texts are reduced to facts before any decision, so that a test can visit every
# state.


class GoalCluster(Enum):
    """The cluster that has the wanted specification."""

    ACTIVE = "active"
    PENDING = "pending"
    OTHER = "other"  # none has it


class SelectedCluster(Enum):
    """The cluster that the stable services select."""

    NEITHER = "neither"
    ACTIVE = "active"
    PENDING = "pending"


class ClusterFacts(Struct, frozen=True):
    """One of the two clusters.

    Attributes:
        recorded: whether the status names it.
        exists: whether there is such a RayCluster.
        has_head: whether its head is ready, so that it may come to serve.
        ready: ready percentage of the full size; None if unknown.
        serves: whether all applications of its stored config run, and its proxies answer.
        keeps_connections: whether its proxies are still closing the connections of clients.
    """

    recorded: bool = False
    exists: bool = False
    has_head: bool = False
    ready: int | None = None
    serves: bool = False
    keeps_connections: bool = False


NO_CLUSTER = ClusterFacts()


class Options(Struct, frozen=True):
    """`spec.upgradeStrategy.clusterUpgradeOptions`, in percent.

    Attributes:
        surge: percentage by which both capacities together may exceed 100.
        step: percentage by which the weight may change at a time.
    """

    surge: int = 100
    step: int = 100


class RolloutFacts(Struct, frozen=True, kw_only=True):
    """The facts about a RayService at one moment.

    Attributes:
        strategy: the reaction to a new specification.
        goal: the cluster that has the wanted specification.
        incremental: whether the pending cluster takes over step by step.
        rolling_back: whether the pending cluster returns what it has taken over.
        shares: stored capacities and weights.
        selection: the cluster that the stable services select.
        gateway_is_possible: whether there is a gateway, or the specification names its class.
        route_in_force: whether the gateway routes by the stored weights.
        interval_passed: whether the weights may be changed again.
    """

    strategy: UpgradeType = UpgradeType.NEW_CLUSTER
    options: Options = field(default_factory=Options)
    goal: GoalCluster = GoalCluster.OTHER
    active: ClusterFacts = NO_CLUSTER
    pending: ClusterFacts = NO_CLUSTER
    incremental: bool = False
    rolling_back: bool = False
    shares: Shares = field(default_factory=Shares)
    selection: SelectedCluster = SelectedCluster.NEITHER
    gateway_is_possible: bool = True
    route_in_force: bool = True
    interval_passed: bool = True


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


Row: TypeAlias = tuple[
    Callable[[RolloutFacts], bool], Change | RolloutWait | Callable[[RolloutFacts], RolloutStep]
]
"""A condition, and what is done if it holds."""

TABLE: Final[Mapping[Phase, tuple[Row, ...]]] = {
    # The first cluster is prepared whatever the strategy.
    Phase.EMPTY: ((always, Change.PREPARE),),
    # It becomes active when it serves. A new specification replaces it before that.
    Phase.FIRST: (
        (services_select_pending, Change.PROMOTE),
        (pending_serves, RolloutWait.SERVICES),
        (pending_is_outdated, Change.REPLACE_PENDING),
        (always, RolloutWait.PENDING_TO_SERVE),
    ),
    # A new specification, or the loss of the cluster, asks for another one.
    Phase.SERVING: (
        (active_is_lost, Change.PREPARE),
        (new_cluster_is_wanted, Change.PREPARE),
        (always, RolloutWait.NOTHING),
    ),
    # What the services select is never given up.
    Phase.UPGRADING: (
        (pending_has_taken_over, Change.PROMOTE),
        (requests_cannot_be_divided, Change.STOP_DIVIDING),
        (rollback_is_wanted, Change.BEGIN_ROLLBACK),
        (pending_is_unwanted, Change.DROP_PENDING),
        (pending_is_outdated, Change.REPLACE_PENDING),
        (is_incremental, move_forward),
        (pending_serves, RolloutWait.SERVICES),
        (always, RolloutWait.PENDING_TO_SERVE),
    ),
    # Until the active cluster has everything, unless the user changes their mind.
    Phase.ROLLING_BACK: (
        (active_is_lost, Change.RESUME_UPGRADE),
        (pending_is_the_goal, Change.RESUME_UPGRADE),
        (requests_cannot_be_divided, Change.STOP_DIVIDING),
        (active_has_everything, Change.DROP_PENDING),
        (always, move_back),
    ),
}


def phase_of(facts: RolloutFacts) -> Phase:
    """Return the phase that the clusters in the status define."""
    if not facts.active.recorded:
        return Phase.FIRST if facts.pending.recorded else Phase.EMPTY
    if not facts.pending.recorded:
        return Phase.SERVING
    return Phase.ROLLING_BACK if facts.rolling_back else Phase.UPGRADING


def next_step(facts: RolloutFacts) -> RolloutStep:
    """Return the step that is due now: a change, a move, or something to wait for."""
    for when, then in TABLE[phase_of(facts)]:
        if when(facts):
            return then if isinstance(then, Change | RolloutWait) else then(facts)
    raise AssertionError("every phase ends with a row that always holds")


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


# Assigns the user's edits to clusters: a Serve config, bounds of replicas, more groups.


def edited_cluster(facts: RolloutFacts) -> GoalCluster:
    """Return the cluster that has the wanted specification; `OTHER` in a rollback.

    So a config never reaches the active cluster before the pending one is promoted or dropped.
    """
    return GoalCluster.OTHER if facts.rolling_back else facts.goal


def keeps_outdated_cluster(facts: RolloutFacts) -> bool:
    """Return whether strategy `None` keeps an active cluster of an outdated specification.

    An edited config still reaches it, because no other cluster would ever get it.
    """
    keeps = facts.strategy is UpgradeType.NONE and facts.goal is GoalCluster.OTHER
    return keeps and facts.active.exists and not facts.pending.recorded
