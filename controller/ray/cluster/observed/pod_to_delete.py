"""A worker to delete, and the cause of its deletion."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from controller.kube.objects import Pod

NAMED = "it is named in workersToDelete"
SURPLUS = "the group has more pods than it should"


class DeletionCause(Enum):
    """The cause of a deletion."""

    POD = "the pod's own state"
    NAMED = "the autoscaler, or another author of workersToDelete"
    SURPLUS = "a number of replicas in the specification"
    RESIZED = "the number of hosts in the specification"
    UPGRADED = "the template in the specification, by the upgrade strategy"
    GROUP_REMOVED = "a group that is not in the specification"


@dataclass(frozen=True, slots=True)
class PodToDelete:
    """A pod to delete, with a clause about the cause for its event."""

    pod: Pod
    reason: str
    cause: DeletionCause = DeletionCause.POD
