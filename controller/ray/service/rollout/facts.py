"""The facts on which a rollout depends: enumerations, booleans and percentages.

Names, times and texts are reduced to facts before any decision, so that a test can visit every
state.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from controller.ray.api.rayservice import UpgradeType
from controller.ray.service.rollout.shares import Shares


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
