"""The options of the cluster that have changed since its pods were made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.ray.api import labels
from controller.ray.pods.hashes.field_digests import changed_fields

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.kube.objects import Pod
    from controller.ray.cluster.observation import ClusterObservation, DesiredCluster


def pods_with_former_options(
    seen: ClusterObservation, desired: DesiredCluster
) -> tuple[list[str], list[str]]:
    """Find the pods that run with former options: their names, and the fields that changed."""
    names: list[str] = []
    fields: set[str] = set()
    for pod, wanted in _with_wanted(seen, desired):
        stamped = (pod.metadata.annotations or {}).get(labels.CLUSTER_OPTIONS)
        changed = changed_fields(stamped, wanted)
        if changed and not pod.metadata.terminating:
            names.append(pod.metadata.name)
            fields |= changed
    return sorted(names), sorted(fields)


def _with_wanted(seen: ClusterObservation, desired: DesiredCluster) -> Iterator[tuple[Pod, str]]:
    for head in seen.heads:
        yield head, desired.builder.options("head")
    for pods in seen.workers.values():
        for worker in pods:
            yield worker, desired.builder.options("worker")
