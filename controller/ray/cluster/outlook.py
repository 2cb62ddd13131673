"""What evictions, drained nodes and disuse would do to a cluster, in sentences for `manta plan`.

They come from the budgets, the surge and the clock that the plans of the operator use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.apimachinery.problem import Problem
from controller.ray.api import labels
from controller.ray.api.lifetime_options import grace_of
from controller.ray.cluster.idle import idle_outlook

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from controller.ray.api.raycluster import ClusterSpec
    from controller.ray.cluster.observation import ClusterObservation


def cluster_outlook(seen: ClusterObservation, now: datetime) -> Iterator[str]:
    """Yield a sentence about evictions, replacements and idleness each, if the cluster has any."""
    desired = seen.desired
    if isinstance(desired, Problem):
        return
    if desired.spec.disruption_budgets is not None:
        yield _evictions(seen, desired.spec)
    yield from _replacements(desired.spec)
    if unused := idle_outlook(seen, desired, now):
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
