"""Records on pods without a comparable hash from which template they were created.

Pods of another operator, or of another algorithm, have no hash that can be compared. While the
specification is the one that the status has seen, they are assumed to be created from it. If it was
edited meanwhile, they count as outdated, unless an autoscaler may have edited it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.apimachinery.custom_object import status_of
from controller.ray.api import labels
from controller.ray.cluster.pods.writes import pod_target, scope_of
from controller.ray.cluster.workers.scale_down import template_hash
from controller.ray.pods.hashes.template_hash import UNKNOWN, is_comparable, is_former
from controller.runtime.plan import MergePatch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.kube.objects import Pod
    from controller.ray.cluster.observation import ClusterObservation, DesiredCluster
    from controller.ray.pods.hashes.template_hash import Hash
    from controller.runtime.plan import Write


def unstamped_pods(seen: ClusterObservation, desired: DesiredCluster) -> list[tuple[Pod, Hash]]:
    """Return the pods without a comparable hash, each with the hash of the present template."""
    return [(pod, wanted) for pod, wanted in _pods(seen, desired) if not _is_comparable(pod)]


def hides_an_edit(seen: ClusterObservation, desired: DesiredCluster) -> bool:
    """Return whether the status must not yet mark the present specification as observed."""
    is_rolling = desired.spec.upgrade_strategy.rolling is not None
    return is_rolling and _is_edited(seen, desired) and bool(unstamped_pods(seen, desired))


def stamp_writes(
    seen: ClusterObservation, desired: DesiredCluster, *, batch: int
) -> Iterator[Write]:
    """Record on pods, a limited number at a time, from which template they were created."""
    edited, is_rolling = (
        _is_edited(seen, desired),
        desired.spec.upgrade_strategy.rolling is not None,
    )
    stamps = [
        (pod, UNKNOWN if edited and not _is_comparable(pod) else str(wanted))
        for pod, wanted in _pods(seen, desired)
        if not _is_comparable(pod) or (is_rolling and is_former(template_hash(pod), wanted))
    ]
    for pod, text in stamps[:batch]:
        scope = scope_of(pod)
        if scope not in seen.pending_scopes:
            stamp = {labels.TEMPLATE_HASH: text}
            target = pod_target(seen, pod.metadata.name, scope)
            yield MergePatch(target, pod.metadata.uid, {"metadata": {"annotations": stamp}})


def _pods(seen: ClusterObservation, desired: DesiredCluster) -> Iterator[tuple[Pod, Hash]]:
    """Yield the pods of groups that are specified, each with the hash of the present template."""
    wanted = desired.builder.hashes()
    for name, pods in {"": seen.heads, **seen.workers}.items():
        if name in wanted:
            yield from ((pod, wanted[name]) for pod in pods if not pod.metadata.terminating)


def _is_comparable(pod: Pod) -> bool:
    return is_comparable(template_hash(pod))


def _is_edited(seen: ClusterObservation, desired: DesiredCluster) -> bool:
    recorded = status_of(seen.cluster).get("observedGeneration")
    is_newer = recorded is not None and recorded != seen.cluster.metadata.generation
    return is_newer and not desired.spec.autoscaling
