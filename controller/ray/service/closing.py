"""Closes the connections of clusters that get no new requests, before they lose what serves them.

A service leads new connections only. Those that clients keep stay at the old cluster, so its
proxies have to end them in order: after an answer, never under a request.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from controller.apimachinery.conditions import find_condition, is_true, time_of
from controller.ray.api.pod_state import is_ready
from controller.ray.dashboard import CloseConnections, HeadCommand
from controller.ray.head.incarnation import find_head
from controller.ray.service.cluster.writes import deletion_time, selected_clusters
from controller.ray.service.condition_types import SUSPENDING
from controller.ray.service.observation import CLOSING_LEAD, PENDING, Closing
from controller.ray.service.rollout.facts import SelectedCluster
from controller.ray.service.rollout.shares import FULL
from controller.ray.service.status.facts import cluster_facts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from controller.ray.api.raycluster import ClusterSpec, RayCluster
    from controller.ray.dashboard import Dashboards
    from controller.ray.head.incarnation import HeadIncarnation
    from controller.ray.service.observation import ServiceObservation, ServingCluster
    from controller.runtime.kind import CacheReader

_LAST_POLL: Final = timedelta(seconds=5)
"""Time between the end of a job that closes connections and the last question for its result."""


def observe_closings(
    seen: ServiceObservation,
    reads: CacheReader,
    spec_of: Callable[[RayCluster], ClusterSpec | None],
    dashboards: Dashboards,
    *,
    domain: str,
) -> Iterator[Closing]:
    """Yield the closings that have begun, with their results; none where no head could do it."""
    for cluster in seen.others:
        due = _due(seen, cluster)
        spec = spec_of(cluster)
        if due is not None and spec is not None and not cluster.metadata.terminating:
            head = find_head(cluster, spec, reads, domain=domain)
            yield from _closing(cluster.metadata.name, head, due, dashboards, ends=True)
    idle = _without_requests(seen)
    moved = time_of(seen.recorded(PENDING).get("lastTrafficMigratedTime"))
    if idle is not None and moved is not None:
        yield from _closing(idle.name, idle.head, moved + CLOSING_LEAD, dashboards, ends=False)


def _due(seen: ServiceObservation, cluster: RayCluster) -> datetime | None:
    """Return when a cluster that the status does not name is to be deleted, if it has to go."""
    suspending = find_condition(seen.status.get("conditions", ()), SUSPENDING)
    if suspending is not None and is_true((suspending,), SUSPENDING):
        return time_of(suspending.get("lastTransitionTime"))
    selected = cluster.metadata.name in selected_clusters(seen)
    return None if selected else deletion_time(cluster)


def _without_requests(seen: ServiceObservation) -> ServingCluster | None:
    """Return the cluster that an incremental upgrade, or its rollback, has left without requests.

    Its capacity is the next to go.
    """
    facts = cluster_facts(seen)
    if not facts.incremental:
        return None
    weight, selection = facts.shares.pending_weight, facts.selection
    if weight == FULL and selection is SelectedCluster.PENDING and not facts.rolling_back:
        return seen.active
    if weight == 0 and selection is SelectedCluster.ACTIVE and facts.rolling_back:
        return seen.pending
    return None


def _closing(
    name: str, head: HeadIncarnation | None, due: datetime, dashboards: Dashboards, *, ends: bool
) -> Iterator[Closing]:
    if head is None or head.terminating or not is_ready(head.pod):
        return
    found = Closing(name, head.dashboard, due, ends=ends)
    yield replace(found, outcome=dashboards.outcome(found.head, found.id))


def close_connections(seen: ServiceObservation, now: datetime) -> Iterator[HeadCommand]:
    """Yield the commands that are not carried out yet."""
    for each in seen.closings:
        if each.outcome is None and now < each.deadline:
            until = each.deadline - _LAST_POLL
            command = CloseConnections(each.id, each.deadline, each.due, until, each.ends)
            yield HeadCommand(each.head, command)


def seconds_to_cut(seen: ServiceObservation, now: datetime) -> Iterator[float]:
    """Yield the seconds until connections that are still open are cut."""
    for each in seen.closings:
        if not each.is_over(now):
            yield (each.deadline - now).total_seconds()
