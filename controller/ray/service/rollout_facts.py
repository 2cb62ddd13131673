"""The facts of which the rollout of a RayService speaks: its steps and its shares of traffic."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeAlias

from controller.ray.api.rayservice import UpgradeType

# The capacities and weights of the two clusters of a RayService, in percent.

FULL: Final = 100


@dataclass(frozen=True, slots=True)
class Shares:
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


@dataclass(frozen=True, slots=True)
class SetActiveCapacity:
    """Change the capacity of the active cluster to `percent`."""

    percent: int


@dataclass(frozen=True, slots=True)
class SetPendingCapacity:
    """Change the capacity of the pending cluster to `percent`."""

    percent: int


@dataclass(frozen=True, slots=True)
class SetPendingWeight:
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


@dataclass(frozen=True, slots=True)
class ClusterFacts:
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


@dataclass(frozen=True, slots=True)
class Options:
    """`spec.upgradeStrategy.clusterUpgradeOptions`, in percent.

    Attributes:
        surge: percentage by which both capacities together may exceed 100.
        step: percentage by which the weight may change at a time.
    """

    surge: int = 100
    step: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutFacts:
    """The facts about a RayService at one moment.

    Attributes:
        strategy: the reaction to a new specification.
        options: options of an incremental upgrade.
        goal: the cluster that has the wanted specification.
        active: the active cluster.
        pending: the pending cluster.
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
