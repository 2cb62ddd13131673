"""The steps of a rollout; at most one is due at a time, and each is stored before its effects."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias


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
