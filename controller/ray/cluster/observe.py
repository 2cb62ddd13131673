"""Gathers everything that a RayCluster's plan depends on from the caches at one moment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from controller.apimachinery.custom_object import SpecificationMemo
from controller.apimachinery.metadata import is_owned_by, ownership_text
from controller.apimachinery.validation import Problem
from controller.kube.resources import PODS
from controller.ray.api import labels
from controller.ray.api.feature_gates import MULTI_HOST_INDEXING
from controller.ray.api.raycluster import RAYCLUSTERS, RayCluster
from controller.ray.cluster.child_table import observe_children
from controller.ray.cluster.children import Note
from controller.ray.cluster.deletion import observe_cleanup
from controller.ray.cluster.disruptions import observe_budgets, observe_disruptions
from controller.ray.cluster.head_and_workers import every_pod
from controller.ray.cluster.idle import resumed
from controller.ray.cluster.observation import (
    NO_HISTORY,
    AnyCluster,
    ClusterObservation,
    DesiredCluster,
    InvalidCluster,
    WorkerUnits,
    read_units,
    stored_status,
)
from controller.ray.cluster.pods import PodsByRole, draining_since, sort_by_role, template_hash
from controller.ray.cluster.rollout import ASSUMED, RayView, observe_ray
from controller.ray.cluster.upgrade import observe_history
from controller.ray.dashboard.commands import NO_DASHBOARDS, Dashboards
from controller.ray.diagnosis.crash_log import log_to_read
from controller.ray.head import HEAD_INDEX, HEAD_SCOPE
from controller.ray.pods.hashes import is_outdated
from controller.ray.settings import RaySettings
from controller.runtime.definitions import DefinitionReader, UnknownFieldFinder
from controller.runtime.kind import CacheReader, owned_by


class ClusterSources(Struct, frozen=True):
    """The sources of an observation besides the caches.

    Attributes:
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
    record = reads.record(cluster.metadata.uid)
    groups = desired.spec.worker_group_specs if isinstance(desired, DesiredCluster) else ()
    pods = sort_by_role(
        cluster.metadata.name,
        (group.group_name for group in groups),
        owned_by(reads, PODS, cluster.metadata),
    )
    workers = tuple(chain.from_iterable(pods.workers.values()))
    all_pods = (*pods.heads, *workers)
    known: dict[str, Any] = {
        "cluster": cluster,
        "stored": stored_status(cluster),
        "heads": pods.heads,
        "workers": pods.workers,
        "all_workers": workers,
        "all_pods": all_pods,
        "pods_listed": record.has_listed(every_pod(cluster)),
        "pending_scopes": record.pending_scopes,
        "cleanup": observe_cleanup(cluster, reads),
        "settings": settings,
        "history": record.memory or NO_HISTORY,
    }
    unreadable = tuple(_unreadable_pods(cluster, reads))
    if not isinstance(desired, DesiredCluster):
        return InvalidCluster(problem=desired, unreadable=unreadable, **known)
    log = log_to_read(all_pods)
    units = _units(desired, pods, settings, dict(record.replicas))
    seen = ClusterObservation(
        **known,
        desired=desired,
        foreign_heads=tuple(_foreign_heads(cluster, reads)),
        unreadable=(*unreadable, *pods.unknown),
        units={each.group.group_name: each for each in units},
        pods_revision=reads.revision(PODS, cluster.metadata.uid),
        taken_pod_names=record.name_conflicts(PODS),
        unknown_fields=sources.unknown_fields_of(cluster, reads),
        definition=sources.read_definition(reads, cluster),
        consistency_warnings=record.consistency_warnings,
        created_pods=record.created(PODS),
        clock_steady_since=reads.clock_steady_since,
        crash_log=log,
        crash_text=record.log_tail(log) if log is not None else None,
    )
    children = observe_children(seen, reads, is_foreseen=sources.dashboards is None)
    revisions, budgets = observe_history(seen, reads), observe_budgets(seen, reads)
    disruptions = observe_disruptions(seen, reads)
    relabelled = (Note("PodRelabelled", sentence) for sentence in pods.relabelled)
    of_history = revisions.notes if revisions is not None else ()
    notes = (*children.notes, *budgets.notes, *relabelled, *of_history)
    return replace(
        seen,
        lost_head=_lost_head(seen, reads),
        children=replace(children, notes=notes) if notes else children,
        revisions=revisions,
        budgets=budgets,
        disruptions=disruptions,
        ray=_ray(seen, reads, sources, is_disrupted=bool(disruptions)),
    )


def _ray(
    seen: ClusterObservation, reads: CacheReader, sources: ClusterSources, *, is_disrupted: bool
) -> RayView:
    """Observe Ray if a plan needs it: draining workers need it whatever the strategy is now."""
    spec = seen.desired.spec
    asks_for_use = spec.idle_termination_options is not None or spec.disruption_budgets is not None
    is_rolling = spec.upgrade_strategy.rolling is not None or draining_since(seen.all_workers)
    if not (is_rolling or asks_for_use or is_disrupted):
        return RayView()
    if sources.dashboards is None:
        return ASSUMED
    return observe_ray(
        seen.cluster,
        spec,
        reads,
        sources.dashboards,
        domain=seen.settings.cluster_domain,
        drains=set(seen.history.drains.commands.values()),
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


def _foreign_heads(cluster: RayCluster, reads: CacheReader) -> Iterable[str]:
    for pod in reads.by_index(PODS, HEAD_INDEX, cluster.metadata.key):
        if not is_owned_by(pod.metadata, cluster.metadata.uid):
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


def _lost_head(seen: ClusterObservation, reads: CacheReader) -> str | None:
    """Return the name of a head that may still run somewhere although the cache does not have it.

    Whatever became of one that had ended, it will not run again.
    """
    name, meta = _known_head(seen.cluster), seen.cluster.metadata
    if seen.heads or not name or name in reads.unreadable(PODS, meta.namespace):
        return None
    if seen.history.has_ended(HEAD_SCOPE, name):
        return None
    key, record = f"{meta.namespace}/{name}", reads.record(meta.uid)
    if reads.get(PODS, key) is not None or record.looked_up_absent(PODS, key):
        return None
    return name


def _known_head(cluster: RayCluster) -> str:
    """Return the name of the head pod in the status, empty if there is none."""
    head: dict[str, Any] = stored_status(cluster).fields.get("head") or {}
    name = head.get("podName")
    return name if isinstance(name, str) else ""
