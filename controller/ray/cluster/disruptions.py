"""Workers that others take away: they are drained in Ray before their processes end.

`disruption_of` decides which these are, and why. A pod that is being deleted has until its deletion
timestamp. One whose eviction is only announced leaves the service and is drained; the operator
deletes it when Ray has nothing left on it, and else leaves its end to whoever announced it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from controller.kube.objects import Node, Pod
from controller.kube.resources import NODES, PODS
from controller.ray.api import labels
from controller.ray.api.lifetime_options import grace_of
from controller.ray.api.pod_state import Disruption, disruption_of, why_leaving
from controller.ray.api.raycluster import ClusterSpec
from controller.ray.cluster.idle import idle_outlook
from controller.ray.cluster.observation import (
    AnyCluster,
    ClusterObservation,
)
from controller.ray.cluster.pods import (
    draining_now,
    draining_since,
    patch_pod,
)
from controller.ray.cluster.rolling_units import taken_away
from controller.runtime.kind import CacheReader, Owned, References
from controller.runtime.plan import Event, Write

_NODE_INDEX: Final = "node"


def _node_of(pod: Pod) -> Sequence[str]:
    return (pod.spec.node_name,) if pod.spec.node_name else ()


def _if_leaving(node: Node) -> Sequence[str]:
    """Return the name of a node whose pods will be taken away: all others concern nobody."""
    return (node.metadata.name,) if why_leaving(node) else ()


_RAY_NODES: Final = replace(NODES, part="of Ray pods")

OF_NODES: Final = (
    Owned(
        _RAY_NODES,
        references=References(_NODE_INDEX, _node_of, _if_leaving, through=PODS),
        optional=True,
    ),
)
"""The nodes of a cluster's pods, for operators that may read nodes."""


def observe_disruptions(seen: ClusterObservation, reads: CacheReader) -> dict[str, Disruption]:
    """Return the disruptions of pods by uid; none of pods that this operator has deleted."""
    if seen.is_ending:
        return {}
    reads_nodes = seen.settings.watch_nodes and reads.serves(_RAY_NODES)
    found: dict[str, Disruption] = {}
    for pod in seen.all_pods:
        if pod.metadata.uid in seen.history.condemned:
            continue
        name = pod.spec.node_name
        going = disruption_of(pod, reads.get(_RAY_NODES, name) if reads_nodes and name else None)
        if going is not None:
            found[pod.metadata.uid] = going
    return found


def announce(seen: ClusterObservation, taken: Collection[str]) -> Iterator[Write]:
    """Begin the drain of workers that will be taken away and are not yet being deleted.

    `taken` are the names of pods that this plan deletes or drains already.
    """
    for head in seen.heads:
        if not head.metadata.terminating and head.metadata.name not in taken:
            yield from _mark(seen, head)
    for pod in seen.all_workers:
        going, meta = seen.disruptions.get(pod.metadata.uid), pod.metadata
        if going is None or meta.terminating or meta.name in taken:
            continue
        if draining_since((pod,)) is None:
            stamps = draining_now(seen) | {labels.DISRUPTION: going.why}
            serves, event = labels.SERVE in (meta.labels or {}), taken_away(pod, going.why)
            yield from patch_pod(seen, pod, stamps, event, leaves_service=serves)


def _mark(seen: ClusterObservation, head: Pod) -> Iterator[Write]:
    """Write on a head that will be taken away why, for people and for its RayService.

    It is not drained: whatever else runs on the cluster needs it until its end.
    """
    meta, going = head.metadata, seen.disruptions.get(head.metadata.uid)
    why = going.why if going is not None else None
    if (meta.annotations or {}).get(labels.DISRUPTION) == why:
        return
    note = f"Head pod {meta.name} will be taken away, because {why}"
    event = Event("Warning", "DisruptedHeadPod", "Update", note) if why is not None else None
    yield from patch_pod(seen, head, {labels.DISRUPTION: why}, event)


# What evictions, drained nodes and disuse would do to a cluster, in sentences for `manta plan`.
#
# They come from the budgets, the surge and the clock that the plans of the operator use.


def cluster_outlook(seen: AnyCluster) -> Iterator[str]:
    """Yield a sentence about evictions, replacements and idleness each, if the cluster has any."""
    if not isinstance(seen, ClusterObservation):
        return
    spec = seen.desired.spec
    if spec.disruption_budgets is not None:
        yield _evictions(seen, spec)
    yield from _replacements(spec)
    if unused := idle_outlook(seen):
        yield unused


def _evictions(seen: ClusterObservation, spec: ClusterSpec) -> str:
    least = {
        child.body["spec"]["selector"]["matchLabels"].get(labels.GROUP, ""): child.body["spec"]
        for child, _ in seen.budgets.possible
    }
    parts = [f"head {_allowed(1, least.get('', {}).get('minAvailable', 0))}"]
    for group in spec.worker_group_specs:
        if pods := group.desired_pods:
            kept = least.get(group.group_name, {}).get("minAvailable", 0)
            parts.append(f"group {group.group_name} {_allowed(pods, kept)}")
    why = "".join(f"; {each.message}" for each in seen.budgets.notes)
    return f"evictions while something runs on the cluster: {', '.join(parts)}{why}"


def _allowed(pods: int, kept: int) -> str:
    if kept >= pods:
        return "refused"
    return f"at most {pods - kept} of {pods} at a time" if kept > 0 else "allowed"


def _replacements(spec: ClusterSpec) -> Iterator[str]:
    options = spec.graceful_termination_options
    if options is None:
        return
    for group in spec.worker_group_specs:
        if not group.desired_replicas:
            continue
        surge = min(spec.surge_of(group.desired_replicas), group.desired_replicas)
        unit = "worker" if group.hosts == 1 else f"replica of {group.hosts} workers"
        when = f"at once, for at most {surge} at a time" if surge else "when it is gone"
        seconds = grace_of(group.template["spec"], options)
        yield (
            f"a {unit} of group {group.group_name} that is evicted or drained has {seconds} s to "
            f"finish; its replacement is created {when}"
        )
