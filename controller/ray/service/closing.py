"""How a cluster of a RayService ends: its proxies close what they have, also for a suspension."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any, Final

from msgspec.structs import replace

from controller.apimachinery.conditions import (
    READY,
    ConditionSet,
    rfc3339,
    time_of,
)
from controller.apimachinery.validation import Problem
from controller.kube.objects import KubeObject
from controller.kube.resources import GATEWAYS, HTTP_ROUTES, SERVICES, Resource
from controller.ray.api.names import is_suspension_asked
from controller.ray.api.pod_state import is_ready
from controller.ray.api.raycluster import ClusterSpec, RayCluster
from controller.ray.api.rayservice import (
    ROLLBACK_IN_PROGRESS,
    SUSPENDED,
    SUSPENDING,
    UPGRADE_IN_PROGRESS,
)
from controller.ray.children import delete_child
from controller.ray.dashboard.commands import CommandDone, Dashboards, HeadCommand
from controller.ray.dashboard.own_job import CloseConnections
from controller.ray.head import HeadIncarnation, find_head
from controller.ray.service.clusters import delete_closed, deletion_time, selected_clusters
from controller.ray.service.facts import cluster_facts
from controller.ray.service.observation import (
    ACTIVE,
    CLOSING_LEAD,
    PENDING,
    Closing,
    ServiceObservation,
    ServingCluster,
)
from controller.ray.service.rollout import FULL, SelectedCluster
from controller.runtime.definitions import set_fields_known
from controller.runtime.kind import CacheReader
from controller.runtime.plan import Event, MergePatch, Plan, StatusPatch, Write

# Text about the clusters that are to be deleted when their connections are closed.


def closing_text(seen: ServiceObservation) -> str:
    """Return clauses about the clusters that are to be deleted; empty if there is none."""
    found = {each.cluster: each for each in seen.closings if each.ends}
    names = sorted(each.metadata.name for each in seen.others if each.metadata.name in found)
    return "; ".join(_text(found[name], seen.now) for name in names)


def _text(closing: Closing, now: datetime) -> str:
    due = rfc3339(closing.due)
    if isinstance(closing.outcome, CommandDone):
        return f"cluster {closing.cluster} has no connection left and is deleted at {due}"
    if closing.outcome is not None:
        return (
            f"cluster {closing.cluster} is deleted at {due} with the connections that are open "
            f"then, because its Serve proxies could not close them: {closing.outcome.message}"
        )
    waits = f"waits for its Serve proxies to close their connections, at least until {due}"
    if now >= closing.due:
        waits = f"{waits.partition(',')[0]}, at most until {rfc3339(closing.deadline)}"
    return f"the deletion of cluster {closing.cluster} {waits}"


# Closes the connections of clusters that get no new requests, before they lose what serves them.
#
# A service leads new connections only. Those that clients keep stay at the old cluster, so its
# proxies have to end them in order: after an answer, never under a request.

_LAST_POLL: Final = timedelta(seconds=5)
"""Time between the end of a job that closes connections and the last question for its result."""


def observe_closings(
    seen: ServiceObservation,
    reads: CacheReader,
    spec_of: Callable[[RayCluster], ClusterSpec | None],
    dashboards: Dashboards,
) -> Iterator[Closing]:
    """Yield the closings that have begun, with their results; none where no head could do it."""
    for cluster in seen.others:
        due = _due(seen, cluster)
        spec = spec_of(cluster)
        if due is not None and spec is not None and not cluster.metadata.terminating:
            head = find_head(cluster, spec, reads, domain=seen.settings.cluster_domain)
            yield from _closing(cluster.metadata.name, head, due, dashboards, ends=True)
    idle = _without_requests(seen)
    moved = time_of(seen.recorded(PENDING).get("lastTrafficMigratedTime"))
    if idle is not None and moved is not None:
        yield from _closing(idle.name, idle.head, moved + CLOSING_LEAD, dashboards, ends=False)


def _due(seen: ServiceObservation, cluster: RayCluster) -> datetime | None:
    """Return when a cluster that the status does not name is to be deleted, if it has to go."""
    if is_suspending(seen):
        return time_of(seen.condition(SUSPENDING).get("lastTransitionTime"))
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


def close_connections(seen: ServiceObservation) -> Iterator[HeadCommand]:
    """Yield the commands that are not carried out yet."""
    for each in seen.closings:
        if each.outcome is None and seen.now < each.deadline:
            until = each.deadline - _LAST_POLL
            command = CloseConnections(each.id, each.deadline, each.due, until, each.ends)
            yield HeadCommand(each.head, command)


def seconds_to_cut(seen: ServiceObservation) -> Iterator[float]:
    """Yield the seconds until connections that are still open are cut."""
    for each in seen.closings:
        if not each.is_over(seen.now):
            yield (each.deadline - seen.now).total_seconds()


# Suspends and resumes a RayService: stored in conditions before anything is deleted.
#
# Once it is stored, a suspension is completed whatever the specification says.

_SCOPE: Final = "suspension"


def plan_suspension(seen: ServiceObservation) -> Plan | None:
    """Return the next step of a suspension or its end; None if the RayService should serve."""
    if is_suspending(seen):
        left = tuple(_deletions(seen))
        if left or has_leftovers(seen):
            return Plan(
                stages=(left,) if left else (),
                status=_waiting(seen),
                requeue_after=min(seconds_to_cut(seen), default=None),
            )
        return Plan(commit=_completed(seen))
    suspend = is_to_be_suspended(seen)
    if seen.is_true(SUSPENDED):
        return Plan(status=_remains(seen)) if suspend else Plan(commit=_resumed(seen))
    return Plan(commit=_requested(seen)) if suspend else None


def is_suspending(seen: ServiceObservation) -> bool:
    """Return whether a suspension has begun and not ended; the specification does not count."""
    return seen.is_true(SUSPENDING)


def is_to_be_suspended(seen: ServiceObservation) -> bool:
    """Return whether `spec.suspend` is heeded; beside another invalid field while it frees some."""
    if not isinstance(seen.goal, Problem):
        return seen.goal.spec.suspend
    return has_leftovers(seen) and is_suspension_asked(seen.service, seen.goal)


def has_leftovers(seen: ServiceObservation) -> bool:
    """Return whether a cluster or a service of the RayService exists or may exist."""
    clusters = any(each.cluster is not None and not each.foreign for each in seen.clusters)
    routes = any(True for _ in _routing_objects(seen))
    return clusters or routes or bool(seen.others or seen.services or seen.pending_scopes)


def _routing_objects(seen: ServiceObservation) -> Iterator[tuple[Resource[Any], KubeObject]]:
    """Yield Gateway and route; the services of the clusters are deleted with them."""
    for resource, found in (
        (GATEWAYS, seen.routing.gateway),
        (HTTP_ROUTES, seen.routing.route),
    ):
        if found is not None:
            yield resource, found


def _deletions(seen: ServiceObservation) -> Iterator[Write]:
    """Yield the deletions of what leads to the clusters, then of those without connections."""
    yield from delete_closed(seen)
    for service in seen.services:
        if not service.metadata.terminating:
            yield delete_child(seen.service.metadata.namespace, SERVICES, service)
    for resource, found in _routing_objects(seen):
        if not found.metadata.terminating:
            yield delete_child(seen.service.metadata.namespace, resource, found)


def _requested(seen: ServiceObservation) -> MergePatch:
    conditions = seen.condition_set()
    conditions.set(SUSPENDING, "True", "SuspendRequested", "spec.suspend is true")
    _set_unready(conditions, seen, "SuspendInProgress")
    cleared = {ACTIVE: None, PENDING: None, "numServeEndpoints": 0, "serviceStatus": ""}
    return seen.commit(_SCOPE, conditions, cleared)


def _waiting(seen: ServiceObservation) -> StatusPatch:
    """Report which connections the suspension waits for."""
    conditions = seen.condition_set()
    message = f"spec.suspend is true; {closing_text(seen)}".removesuffix("; ")
    conditions.set(SUSPENDING, "True", "SuspendRequested", message)
    return StatusPatch({"conditions": conditions.as_list()})


def _completed(seen: ServiceObservation) -> MergePatch:
    return seen.commit(_SCOPE, _suspended(seen), {}, _event(seen, "Suspended"))


def _remains(seen: ServiceObservation) -> StatusPatch:
    """Report whether edits are valid, and that they were observed."""
    conditions = _suspended(seen)
    set_fields_known(conditions, seen.unknown_fields)
    seen.definition.set_in(conditions)
    generation = seen.service.metadata.generation
    return StatusPatch({"observedGeneration": generation, "conditions": conditions.as_list()})


def _suspended(seen: ServiceObservation) -> ConditionSet:
    conditions = seen.condition_set()
    conditions.set(SUSPENDING, "False", "SuspendComplete", "")
    conditions.set(SUSPENDED, "True", "SuspendComplete", "its clusters and services are deleted")
    _set_unready(conditions, seen, "SuspendComplete")
    return conditions


def _resumed(seen: ServiceObservation) -> MergePatch:
    """Resume; `Ready` begins anew, and with it the time to initialize."""
    conditions = seen.condition_set()
    conditions.set(SUSPENDED, "False", "RayServiceResumed", "")
    for kind in (READY, UPGRADE_IN_PROGRESS):
        conditions.remove(kind)
        conditions.set(kind, "False", "Initializing", "")
    return seen.commit(_SCOPE, conditions, {}, _event(seen, "Resumed"))


def _set_unready(conditions: ConditionSet, seen: ServiceObservation, reason: str) -> None:
    wrong = f"; {seen.goal}" if isinstance(seen.goal, Problem) else ""
    for kind in (READY, UPGRADE_IN_PROGRESS, ROLLBACK_IN_PROGRESS):
        conditions.set(kind, "False", reason, f"spec.suspend is true{wrong}")


def _event(seen: ServiceObservation, what: str) -> Event:
    note = f"{what} {seen.service.metadata.name}"
    return Event("Normal", f"RayService{what}", "Update", note)
