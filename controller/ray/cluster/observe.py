"""Gathers everything that a RayCluster's plan depends on from the caches at one moment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from controller.apimachinery.custom_object import SpecificationMemo, status_of
from controller.apimachinery.ownership import is_owned_by, ownership_text
from controller.apimachinery.problem import Problem
from controller.kube.objects import Pod
from controller.kube.resources import PODS
from controller.ray.api import labels
from controller.ray.api.feature_gates import MULTI_HOST_INDEXING
from controller.ray.api.raycluster import RAYCLUSTERS, RayCluster
from controller.ray.cluster.budgets import observe_budgets
from controller.ray.cluster.child_table import observe_children
from controller.ray.cluster.children import Note
from controller.ray.cluster.deletion import observe_cleanup
from controller.ray.cluster.disruptions import observe_disruptions
from controller.ray.cluster.head_and_workers import every_pod
from controller.ray.cluster.idle import resumed
from controller.ray.cluster.observation import (
    NO_HISTORY,
    AnyCluster,
    ClusterObservation,
    DesiredCluster,
    InvalidCluster,
    PodHistory,
    WorkerUnits,
    read_units,
)
from controller.ray.cluster.pods import PodsByRole, draining_since, sort_by_role, template_hash
from controller.ray.cluster.ray_view import ASSUMED, RayView, observe_ray
from controller.ray.cluster.revision_history import observe_history
from controller.ray.dashboard import NO_DASHBOARDS, Dashboards
from controller.ray.diagnosis.crash_log import log_to_read
from controller.ray.head import HEAD_INDEX, HEAD_SCOPE
from controller.ray.pods.hashes import is_outdated
from controller.ray.settings import RaySettings
from controller.runtime.kind import CacheReader, owned_by
from controller.runtime.reconcile.definitions import DefinitionReader, UnknownFieldFinder


@dataclass(frozen=True, slots=True)
class ClusterSources:
    """The sources of an observation besides the caches.

    Attributes:
        desired_of: returns the desired state of a RayCluster, or its problem.
        unknown_fields_of: finds the unknown fields of its pod templates.
        read_definition: reads which fields the installed definition lacks.
        settings: settings of the RayCluster controller.
        dashboards: Ray's reports; None to take ready pods for nodes of Ray.
    """

    desired_of: SpecificationMemo[RayCluster, DesiredCluster | Problem]
    unknown_fields_of: UnknownFieldFinder
    read_definition: DefinitionReader
    settings: RaySettings
    dashboards: Dashboards | None = NO_DASHBOARDS


def observe_cluster(key: str, reads: CacheReader, sources: ClusterSources) -> AnyCluster | None:
    """Read the cluster `namespace/name` and its children; None if it does not exist."""
    cluster = sources.desired_of.present(key, reads.get(RAYCLUSTERS, key))
    if cluster is None:
        return None
    desired, settings = sources.desired_of(cluster), sources.settings
    if isinstance(desired, DesiredCluster):
        desired = resumed(cluster, desired)
    uid, record = cluster.metadata.uid, reads.record(cluster.metadata.uid)
    groups = desired.spec.worker_group_specs if isinstance(desired, DesiredCluster) else ()
    pods = sort_by_role(
        cluster.metadata.name,
        (group.group_name for group in groups),
        owned_by(reads, PODS, cluster.metadata),
    )
    heads, workers = pods.heads, pods.workers
    history: PodHistory = record.memory or NO_HISTORY
    if not isinstance(desired, DesiredCluster):
        return InvalidCluster(
            cluster=cluster,
            problem=desired,
            heads=heads,
            workers=workers,
            unreadable=tuple(_unreadable_pods(cluster, reads)),
            pods_listed=record.has_listed(every_pod(cluster)),
            pending_scopes=record.pending_scopes,
            cleanup=observe_cleanup(cluster, reads),
            settings=settings,
            history=history,
        )
    going = observe_disruptions(
        cluster,
        desired,
        chain(heads, *workers.values()),
        reads,
        history=history,
        watches=settings.watch_nodes,
    )
    log = log_to_read(chain(heads, *workers.values()))
    units = _units(desired, pods, settings, dict(record.replicas))
    revisions = observe_history(cluster, desired, reads)
    foreseen = sources.dashboards is None
    children = observe_children(cluster, desired, reads, settings, pods, is_foreseen=foreseen)
    relabelled = (Note("PodRelabelled", sentence) for sentence in pods.relabelled)
    budgets = observe_budgets(desired, reads, heads, workers)
    of_history = revisions.notes if revisions is not None else ()
    notes = (*children.notes, *budgets.notes, *relabelled, *of_history)
    return ClusterObservation(
        cluster=cluster,
        desired=desired,
        heads=heads,
        foreign_heads=tuple(_foreign_heads(key, uid, reads)),
        workers=workers,
        children=replace(children, notes=notes),
        budgets=budgets,
        unreadable=(*_unreadable_pods(cluster, reads), *pods.unknown),
        units={each.group.group_name: each for each in units},
        pods_revision=reads.revision(PODS, uid),
        taken_pod_names=record.name_conflicts(PODS),
        pods_listed=record.has_listed(every_pod(cluster)),
        pending_scopes=record.pending_scopes,
        lost_head=_lost_head(cluster, heads, history, reads),
        revisions=revisions,
        cleanup=observe_cleanup(cluster, reads),
        settings=settings,
        unknown_fields=sources.unknown_fields_of(cluster, reads),
        definition=sources.read_definition(reads, cluster),
        consistency_warnings=record.consistency_warnings,
        created_pods=record.created(PODS),
        history=history,
        clock_steady_since=reads.clock_steady_since,
        crash_log=log,
        crash_text=record.log_tail(log) if log is not None else None,
        disruptions=going,
        ray=_ray(
            cluster,
            desired,
            reads,
            sources,
            chain.from_iterable(workers.values()),
            history=history,
            going=bool(going),
        ),
    )


def _ray(
    cluster: RayCluster,
    desired: DesiredCluster,
    reads: CacheReader,
    sources: ClusterSources,
    workers: Iterable[Pod],
    *,
    history: PodHistory,
    going: bool,
) -> RayView:
    """Observe Ray if a plan needs it: draining workers need it whatever the strategy is now."""
    is_rolling = desired.spec.upgrade_strategy.rolling is not None
    spec = desired.spec
    asks_for_use = spec.idle_termination_options is not None or spec.disruption_budgets is not None
    if not (is_rolling or asks_for_use or going) and draining_since(workers) is None:
        return RayView()
    if sources.dashboards is None:
        return ASSUMED
    return observe_ray(
        cluster,
        desired.spec,
        reads,
        sources.dashboards,
        domain=sources.settings.cluster_domain,
        drains=set(history.drains.commands.values()),
    )


def _units(
    desired: DesiredCluster, pods: PodsByRole, settings: RaySettings, begun: Mapping[str, int]
) -> Iterator[WorkerUnits]:
    """Yield the units of each group.

    During a rolling update a replica of several hosts that was begun with an older template is not
    completed with the new one.
    """
    is_indexed = settings.feature_gates.enabled(MULTI_HOST_INDEXING)
    for group in desired.spec.worker_group_specs:
        found = pods.workers.get(group.group_name, ())
        units = read_units(group, found, begun, is_indexed=is_indexed)
        if desired.spec.upgrade_strategy.rolling is not None and units.begun:
            wanted = desired.builder.hashes[group.group_name]
            outdated = {
                each.name
                for each in units.units
                if any(is_outdated(template_hash(pod), wanted) for pod in each.pods)
            }
            kept = {name: hosts for name, hosts in begun.items() if name not in outdated}
            units = replace(units, begun=kept)
        yield units


def _foreign_heads(key: str, uid: str, reads: CacheReader) -> Iterable[str]:
    for pod in reads.by_index(PODS, HEAD_INDEX, key):
        if not is_owned_by(pod.metadata, uid):
            yield (
                f"pod {pod.metadata.name} carries the labels of this cluster's head "
                f"and {ownership_text(pod.metadata)}"
            )


def _unreadable_pods(cluster: RayCluster, reads: CacheReader) -> Iterable[str]:
    """Return sentences about pods of this cluster that cannot be decoded.

    One without a readable owner belongs to the cluster that its label or the status names.
    """
    meta, head = cluster.metadata, _known_head(cluster)
    for name, odd in sorted(reads.unreadable(PODS, meta.namespace).items()):
        owner, named = odd.metadata.controller, (odd.metadata.labels or {}).get(labels.CLUSTER)
        if owner.uid == meta.uid if owner is not None else meta.name == named or name == head:
            yield f"pod {name} exists but cannot be read: {odd.reason}"


def _lost_head(
    cluster: RayCluster, heads: Sequence[Pod], history: PodHistory, reads: CacheReader
) -> str | None:
    """Return the name of a head that may still run somewhere although the cache does not have it.

    Whatever became of one that had ended, it will not run again.
    """
    name, namespace = _known_head(cluster), cluster.metadata.namespace
    if heads or not name or name in reads.unreadable(PODS, namespace):
        return None
    if history.has_ended(HEAD_SCOPE, name):
        return None
    key, record = f"{namespace}/{name}", reads.record(cluster.metadata.uid)
    if reads.get(PODS, key) is not None or record.looked_up_absent(PODS, key):
        return None
    return name


def _known_head(cluster: RayCluster) -> str:
    """Return the name of the head pod in the status, empty if there is none."""
    head: dict[str, Any] = status_of(cluster).get("head") or {}
    name = head.get("podName")
    return name if isinstance(name, str) else ""
