"""Reads multi-host replicas from the labels of their pods."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from controller.ray.api import labels

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from controller.kube.objects import Pod
    from controller.ray.api.raycluster import WorkerGroup


@dataclass(frozen=True, slots=True)
class MultiHostReplica:
    """An observed replica.

    Attributes:
        name: name of the replica; empty for a pod without the label, which is a replica of its own.
        pods: its pods by host index, including terminating ones.
    """

    name: str
    pods: tuple[Pod, ...]

    @property
    def live(self) -> list[Pod]:
        """The pods that are not terminating."""
        return [pod for pod in self.pods if not pod.metadata.terminating]

    def is_whole(self, hosts: int) -> bool:
        """Return whether it has the pods of so many hosts, and none of a larger replica."""
        too_high = any(each.isdecimal() and int(each) >= hosts for each in self.host_indices)
        return len(self.pods) == hosts and not too_high

    @property
    def host_indices(self) -> list[str]:
        """The host indices that its pods carry, empty for a pod without one."""
        return [_label(pod, labels.HOST_INDEX) for pod in self.pods]

    @property
    def index(self) -> str:
        """The replica index that its pods carry."""
        return (self.pods[0].metadata.labels or {}).get(labels.REPLICA_INDEX, "")


def are_multi_host(group: WorkerGroup, pods: Sequence[Pod]) -> bool:
    """Return whether the group's pods must be treated as multi-host replicas.

    A group with pods from an operator that sets no replica labels is not treated so: which of them
    compute together is unknown, so they stay and are replaced one by one until the group has been
    empty once.
    """
    if any(_label(pod, labels.REPLICA_NAME) for pod in pods):
        return True
    return group.hosts > 1 and all(_label(pod, labels.REPLICA_INDEX) for pod in pods)


def read_replicas(pods: Iterable[Pod]) -> tuple[MultiHostReplica, ...]:
    """Group the pods of a group by the names of their replicas."""
    found: defaultdict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        found[_label(pod, labels.REPLICA_NAME)].append(pod)
    singles = found.pop("", [])
    replicas = [
        MultiHostReplica(name, tuple(sorted(found[name], key=_host_order)))
        for name in sorted(found)
    ]
    return (*replicas, *(MultiHostReplica("", (pod,)) for pod in singles))


def _host_order(pod: Pod) -> tuple[int, str, str]:
    index = _label(pod, labels.HOST_INDEX)
    return len(index), index, pod.metadata.name


def _label(pod: Pod, key: str) -> str:
    return (pod.metadata.labels or {}).get(key, "")
