"""The options of the cluster that have changed since its pods were made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.ray.api import labels
from controller.ray.pods.hashes.field_digests import changed_fields

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from controller.kube.objects import Pod
    from controller.ray.cluster.observation import ClusterObservation, DesiredCluster
    from controller.ray.pods.start_command import Role


def pods_with_former_options(
    seen: ClusterObservation, desired: DesiredCluster
) -> tuple[list[str], list[str]]:
    """Find the pods that run with former options: their names, and the fields that changed."""
    names: list[str] = []
    fields: set[str] = set()
    for role, pods in _by_role(seen):
        changed = {
            stamp: changed_fields(stamp, desired.builder.options(role))
            for stamp in set(map(_stamp, pods))
        }
        for pod in pods:
            if changed[_stamp(pod)] and not pod.metadata.terminating:
                names.append(pod.metadata.name)
                fields |= changed[_stamp(pod)]
    return sorted(names), sorted(fields)


def _by_role(seen: ClusterObservation) -> Iterator[tuple[Role, Sequence[Pod]]]:
    yield "head", seen.heads
    for pods in seen.workers.values():
        yield "worker", pods


def _stamp(pod: Pod) -> str | None:
    return (pod.metadata.annotations or {}).get(labels.CLUSTER_OPTIONS)
