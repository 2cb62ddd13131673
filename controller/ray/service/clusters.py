"""The clusters of a RayService: how they are created, changed and deleted."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from controller.apimachinery.conditions import (
    READY,
    counted_from,
    rfc3339,
    time_of,
)
from controller.apimachinery.custom_object import mapping
from controller.apimachinery.validation import Problem
from controller.kube.objects import Service
from controller.ray.api import labels
from controller.ray.api.raycluster import RAYCLUSTERS, RayCluster
from controller.ray.api.rayservice import RAYSERVICES, RayService, initializing_timeout
from controller.ray.children.child_cluster import (
    child_cluster,
    in_place_operations,
    inherited_changes,
    inherited_stamp,
    separate_redis,
)
from controller.ray.diagnosis.writes import created_cluster
from controller.ray.service.identity import ConfigTooLarge, store
from controller.ray.service.observation import (
    ACTIVE,
    CLUSTER_SCOPE,
    PENDING,
    ServiceGoal,
    ServiceObservation,
    ServingCluster,
)
from controller.ray.service.serve import (
    CONTROLLER_DELAY,
    is_applied,
    is_recorded_as_applied,
    reported_config,
    unreached_since,
)
from controller.ray.service.traffic import routed_clusters
from controller.runtime.plan import (
    Create,
    Delete,
    Event,
    JsonPatch,
    MergePatch,
    Plan,
    Target,
    Write,
)

# Builds the RayCluster of a RayService.

Body = dict[str, Any]


def cluster_body(service: RayService, goal: ServiceGoal, name: str, *, from_least: bool) -> Body:
    """Return the RayCluster to create.

    Args:
        service: the RayService that will own it.
        goal: the user's goal.
        name: name of the cluster.
        from_least: whether the groups begin with their minimum of replicas and grow with the
            capacity.
    """
    spec = copy.deepcopy(goal.spec.ray_cluster_config)
    if from_least:
        for group in spec.get("workerGroupSpecs", ()):
            group.pop("replicas", None)
    separated = separate_redis(spec, service.metadata.annotations or {}, name)
    return child_cluster(
        RAYSERVICES,
        service.metadata,
        name,
        spec,
        own_annotations={
            **goal.annotations,
            **goal.stamps,
            **separated,
            **inherited_stamp(service.metadata),
        },
    )


# Writes that create, change and delete the RayClusters of a RayService.
#
# The reasons of events are KubeRay's.

_ROUND_UP: Final = timedelta(microseconds=999_999)
"""Added because timestamps have whole seconds: requests get the whole delay to end."""

DEFAULT_DELAY: Final = timedelta(seconds=60)
"""Time for which a replaced cluster is kept if the RayService sets none (KubeRay)."""


def create_pending(seen: ServiceObservation) -> Iterator[Write]:
    """Create the pending cluster under its recorded name.

    A deleted active cluster is replaced by a pending one, never created again.
    """
    if CLUSTER_SCOPE in seen.pending_scopes:
        return
    pending = seen.pending
    if pending is None or pending.cluster is not None or pending.foreign:
        return
    goal, stepwise = seen.valid_goal, seen.is_incremental
    body = cluster_body(seen.service, goal, pending.name, from_least=stepwise)
    again = bool(mapping(seen.recorded(PENDING).get("rayClusterStatus")))
    created = created_cluster(seen.service.metadata, pending.name, again=again)
    yield Create(_target(seen, pending.name), body, on_success=created)


def update_in_place(seen: ServiceObservation, cluster: ServingCluster) -> Iterator[Write]:
    """Patch the cluster of the wanted specification where it may change in place."""
    if cluster.live is None:
        return
    meta, goal = cluster.live.metadata, seen.valid_goal
    operations = in_place_operations(cluster.live, goal.spec.ray_cluster_config)
    if operations:
        note = f"Updated RayCluster {cluster.name}"
        updated = Event("Normal", "UpdatedRayCluster", "Update", note)
        yield JsonPatch(_target(seen, cluster.name), meta.uid, operations, on_success=updated)
    stamps = tuple(_store(seen, cluster, goal.annotations))
    yield from stamps
    edited = inherited_changes(seen.service.metadata, meta)
    if edited and not operations and not stamps:
        yield _patch(seen, cluster.live, {"metadata": edited})


def update_config(seen: ServiceObservation, cluster: ServingCluster) -> Iterator[Write]:
    """Store the wanted config on a cluster that keeps an outdated specification."""
    wanted = seen.valid_goal.annotations
    config = (labels.SERVE_CONFIG, labels.SERVE_CONFIG_HASH)
    yield from _store(seen, cluster, {key: wanted[key] for key in config})


def _store(
    seen: ServiceObservation, cluster: ServingCluster, wanted: Mapping[str, str]
) -> Iterator[Write]:
    """Set annotations; with a new config, remove the record that the last one was accepted."""
    if cluster.live is None:
        return
    stamps: dict[str, str | None]
    stamps = {k: v for k, v in wanted.items() if cluster.annotations.get(k) != v}
    if labels.SERVE_CONFIG_HASH in stamps:
        stamps[labels.SERVE_CONFIG_APPLIED] = None
    if stamps:
        yield _annotate(seen, cluster.live, stamps)


def needs_identity(cluster: ServingCluster) -> bool:
    """Return whether another operator created the cluster, so that its source is not recorded."""
    return cluster.exists and labels.MADE_FROM not in cluster.annotations


def record_identity(seen: ServiceObservation, cluster: ServingCluster, *, goal: bool) -> MergePatch:
    """Record from what a cluster of another operator was created."""
    assert cluster.live is not None
    made_from = str(cluster.origin.identity)
    if goal:
        made_from = seen.valid_goal.annotations[labels.MADE_FROM]
    return _annotate(seen, cluster.live, {labels.MADE_FROM: made_from})


def follow_suspension(
    seen: ServiceObservation, cluster: ServingCluster, *, resumes: bool = False
) -> Iterator[Write]:
    """Suspend and resume a cluster with `spec.rayClusterConfig.suspend`, which Kueue sets.

    Kueue has quota for one cluster. Of two, only that with `resumes` is resumed: the other one
    serves nobody, and would take the quota. A RayService without the field does not change its
    clusters, and what is invalid resumes none.
    """
    wanted = seen.wanted_suspension
    if cluster.live is None or wanted is None:
        return
    if cluster.suspended is not wanted and (wanted or resumes):
        yield _patch(seen, cluster.live, {"spec": {"suspend": wanted}})


def record_applied(seen: ServiceObservation, cluster: ServingCluster) -> Iterator[Write]:
    """Record the config that Ray has accepted; the event names the cluster."""
    if cluster.live is None or cluster.config is None:
        return
    applied = cluster.config.hash
    if is_applied(cluster) and not is_recorded_as_applied(cluster):
        note = f"Applied config {applied} to RayCluster {cluster.name}"
        event = Event("Normal", "UpdatedServeApplications", "Update", note)
        yield _annotate(seen, cluster.live, {labels.SERVE_CONFIG_APPLIED: applied}, event)


def needs_stamp(cluster: ServingCluster) -> bool:
    """Return whether another operator created the cluster, so that no config is stored on it."""
    return cluster.cluster is not None and cluster.config is None and not cluster.config_problem


def stamp_reported(seen: ServiceObservation, cluster: ServingCluster) -> Iterator[Write]:
    """Store the config that Ray reports; the wanted one only if Ray has deployed nothing."""
    reported, unreached = reported_config(cluster), unreached_since(cluster)
    if reported is None or cluster.live is None:
        return
    if unreached is not None and seen.now < unreached + CONTROLLER_DELAY:
        return
    if reported["applications"]:
        try:
            annotations = store(reported)
        except ConfigTooLarge:
            return  # the status says so
        annotations[labels.SERVE_CONFIG_APPLIED] = annotations[labels.SERVE_CONFIG_HASH]
    else:
        annotations = dict(seen.valid_goal.annotations)
    yield _annotate(seen, cluster.live, annotations)


def delete_replaced(seen: ServiceObservation) -> Iterator[Write]:
    """Delete clusters that the status does not name, some time after their replacement.

    The cluster stores the time, so that a restart of the operator does not restart the delay. While
    the delay is unknown, only clusters with a stored time are deleted. A time later than the delay
    allows came from a clock that has gone back since, or from a longer delay: it is written anew. A
    cluster that a service still selects, or to which a route still leads, or whose proxies are
    closing connections, is kept.
    """
    selected, delay = selected_clusters(seen), deletion_delay(seen)
    for cluster in seen.others:
        meta = cluster.metadata
        if meta.terminating or meta.name in selected:
            continue
        due = deletion_time(cluster)
        latest = None if delay is None else seen.now + delay + _ROUND_UP
        if latest is not None and (due is None or due > latest):
            yield _annotate(seen, cluster, {labels.DELETE_AFTER: rfc3339(latest)})
        elif due is not None and due <= seen.now and not seen.awaits_closing(meta.name):
            yield _delete(seen, cluster)


def delete_all(seen: ServiceObservation) -> Iterator[Write]:
    """Delete all clusters at once."""
    recorded = (
        each.cluster for each in seen.clusters if each.cluster is not None and not each.foreign
    )
    for cluster in (*recorded, *seen.others):
        if not cluster.metadata.terminating:
            yield _delete(seen, cluster)


def delete_closed(seen: ServiceObservation) -> Iterator[Write]:
    """Delete the clusters that the status does not name, except for those with connections."""
    for cluster in seen.others:
        meta = cluster.metadata
        if not meta.terminating and not seen.awaits_closing(meta.name):
            yield _delete(seen, cluster)


def deletion_delay(seen: ServiceObservation) -> timedelta | None:
    """Return `spec.rayClusterDeletionDelaySeconds`; None if it is unknown.

    While the specification is invalid, it is not known what replaces a cluster if the status names
    no active one. Nothing is kept while all clusters are to be suspended: Kueue wants the quota.
    """
    if isinstance(seen.goal, Problem) and seen.active is None:
        return None
    if not seen.is_known("rayClusterDeletionDelaySeconds"):
        return None
    if seen.wanted_suspension:
        return timedelta(0)
    seconds = seen.upgrade.ray_cluster_deletion_delay_seconds
    return DEFAULT_DELAY if seconds is None else timedelta(seconds=seconds)


def deletion_time(cluster: RayCluster) -> datetime | None:
    """Return the time from which a replaced cluster may be deleted; None if not decided."""
    return time_of((cluster.metadata.annotations or {}).get(labels.DELETE_AFTER))


def selected_clusters(seen: ServiceObservation) -> frozenset[str]:
    """Return the names of the clusters that stable services select or the route leads to."""
    present = (observed.present for _, observed in seen.children)
    services = (*seen.services, *(each for each in present if isinstance(each, Service)))
    selectors = (each.spec.selector or {} for each in services)
    return routed_clusters(seen) | {each.get(labels.CLUSTER, "") for each in selectors}


def _delete(seen: ServiceObservation, cluster: RayCluster) -> Delete:
    meta = cluster.metadata
    deleted = Event("Normal", "DeletedRayCluster", "Delete", f"Deleted RayCluster {meta.name}")
    return Delete(_target(seen, meta.name), meta.uid, on_success=deleted)


def _annotate(
    seen: ServiceObservation,
    cluster: RayCluster,
    annotations: Mapping[str, str | None],
    on_success: Event | None = None,
) -> MergePatch:
    return _patch(seen, cluster, {"metadata": {"annotations": annotations}}, on_success)


def _patch(
    seen: ServiceObservation,
    cluster: RayCluster,
    patch: Mapping[str, Any],
    on_success: Event | None = None,
) -> MergePatch:
    meta = cluster.metadata
    return MergePatch(_target(seen, meta.name), meta.uid, patch, on_success=on_success)


def _target(seen: ServiceObservation, name: str) -> Target:
    return Target(RAYCLUSTERS, seen.service.metadata.namespace, name, CLUSTER_SCOPE)


# The deadline of the annotation `ray.io/initializing-timeout`.
#
# A RayService that does not serve in time fails: its clusters are deleted, so that they do not hold
# GPUs for ever. An edit or a suspension starts the time anew.

TIMED_OUT: Final = "InitializingTimeout"
"""Reason of `Ready`, KubeRay's."""


def plan_timeout(seen: ServiceObservation) -> Plan | None:
    """Plan for a deadline that has passed; None if it has not."""
    ready = seen.condition(READY)
    if ready.get("reason") == TIMED_OUT:
        if ready.get("observedGeneration") != seen.service.metadata.generation:
            return Plan(commit=_unready(seen, "Initializing", "the specification was edited"))
        return Plan(
            independent=tuple(delete_replaced(seen)),
            requeue_after=10.0 if seen.others else None,
        )
    left = seconds_to_timeout(seen)
    if left is None or left > 0:
        return None
    message = (
        "RayService failed to become ready within the configured timeout; edit or suspend it to "
        f"try again: {ready.get('message', '')}"
    ).rstrip(": ")
    return Plan(commit=_unready(seen, TIMED_OUT, message))


def seconds_to_timeout(seen: ServiceObservation) -> float | None:
    """Return the seconds until the deadline; None if there is none.

    If a clock that was ahead has written its beginning, it counts from when the clock is steady.
    """
    timeout = initializing_timeout(seen.service.metadata.annotations)
    ready = seen.condition(READY)
    if timeout is None or ready.get("reason") != "Initializing":
        return None
    since = time_of(ready.get("lastTransitionTime"))
    if since is None:
        return None
    since = counted_from(since, seen.clock_steady_since, seen.now)
    return timeout.total_seconds() - (seen.now - since).total_seconds()


def _unready(seen: ServiceObservation, reason: str, message: str) -> MergePatch:
    """Return the patch that forgets both clusters, so that the time of `Ready` begins anew."""
    conditions = seen.condition_set()
    conditions.remove(READY)
    conditions.set(READY, "False", reason, message)
    timed_out = Event("Warning", f"RayService{TIMED_OUT}", "Reconcile", message)
    told = timed_out if reason == TIMED_OUT else None
    return seen.commit("rollout", conditions, {ACTIVE: None, PENDING: None}, told)
