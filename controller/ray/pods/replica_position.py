"""The position of a worker in its group: its replica, and its host in the replica."""

from __future__ import annotations

from dataclasses import dataclass

from controller.ray.api import labels


@dataclass(frozen=True, slots=True)
class ReplicaPosition:
    """A worker's position, which labels of the pod show to Ray and to users.

    Attributes:
        index: index of the replica in its group, from 0.
        replica_name: name of the replica, if one replica has several hosts; else empty.
        host_index: index of the pod in its replica, from 0.
    """

    index: int
    replica_name: str = ""
    host_index: int = 0

    def labels(self) -> dict[str, str]:
        """Return the labels of a pod in this position."""
        replica = {labels.REPLICA_INDEX: str(self.index)}
        if not self.replica_name:
            return replica
        return replica | {
            labels.REPLICA_NAME: self.replica_name,
            labels.HOST_INDEX: str(self.host_index),
        }
