"""Finds the pods that were created from an older template than the present one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.ray.cluster.workers.scale_down import template_hash
from controller.ray.pods.hashes.template_hash import is_outdated

if TYPE_CHECKING:
    from controller.ray.cluster.observation import ClusterObservation, DesiredCluster


def outdated_pods(seen: ClusterObservation, desired: DesiredCluster) -> list[str]:
    """Return the names of the outdated pods, sorted, without those of removed groups."""
    current = desired.builder.hashes()
    names: list[str] = []
    for group_name, pods in {"": seen.heads, **seen.workers}.items():
        expected = current.get(group_name)
        if expected is not None:
            names += [
                pod.metadata.name for pod in pods if is_outdated(template_hash(pod), expected)
            ]
    return sorted(names)
