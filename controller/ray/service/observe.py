"""Gathers what a RayService's plan depends on, from caches and dashboards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from controller.apimachinery.custom_object import SpecificationMemo, mapping, status_of
from controller.apimachinery.metadata import is_owned_by, owner_reference
from controller.apimachinery.validation import Problem
from controller.kube.objects import Pod, Service
from controller.kube.resources import GATEWAYS, HTTP_ROUTES, PODS, SERVICES
from controller.ray.api import labels
from controller.ray.api.raycluster import RAYCLUSTERS, ClusterSpec, RayCluster
from controller.ray.api.rayservice import RAYSERVICES, RayService, read_upgrade
from controller.ray.children import Child, ObservedChild, observe_child
from controller.ray.children.child_cluster import child_cluster_name, unused_moment
from controller.ray.dashboard.commands import Dashboards
from controller.ray.dashboard.probes import ProxyProbe, ServeProbe
from controller.ray.diagnosis.writes import refused_creates
from controller.ray.head import RAY_PODS, find_head, head_keys
from controller.ray.service.closing import observe_closings
from controller.ray.service.facts import collect_facts, is_followed, keeps_services
from controller.ray.service.identity import (
    Origin,
    SpecIdentity,
    StoredConfig,
    put_command_ids,
)
from controller.ray.service.observation import (
    ACTIVE,
    PENDING,
    ServiceGoal,
    ServiceObservation,
    ServingCluster,
)
from controller.ray.service.proxies import endpoints_of, gated_pods, proxy_on, with_assumed_serve
from controller.ray.service.rollout import SelectedCluster, wanted_selection
from controller.ray.service.services import former_services, stable_services
from controller.ray.service.traffic import observe_routing
from controller.ray.settings import RaySettings
from controller.runtime.definitions import DefinitionsReader, UnknownFieldFinder
from controller.runtime.kind import CacheReader, Owned, References, owned_by
from controller.runtime.plan import Target


class ServiceSources(Struct, frozen=True):
    """The sources of an observation besides the caches.

    Attributes:
        config_of: returns the Serve config that is stored on a RayCluster, or why there is none.
        assumes_serve: whether Serve is assumed to run what it gets, instead of asking dashboards.
    """

    goal_of: SpecificationMemo[RayService, ServiceGoal | Problem]
    cluster_spec_of: Callable[[RayCluster], ClusterSpec | None]
    config_of: Callable[[RayCluster], StoredConfig | str | None]
    unknown_fields_of: UnknownFieldFinder
    read_definition: DefinitionsReader
    dashboards: Dashboards
    settings: RaySettings
    assumes_serve: bool = False


def observe_service(
    key: str, reads: CacheReader, sources: ServiceSources
) -> ServiceObservation | None:
    """Read the RayService `namespace/name` and what belongs to it; None if it does not exist."""
    service = sources.goal_of.present(key, reads.get(RAYSERVICES, key))
    if service is None:
        return None
    meta, goal = service.metadata, sources.goal_of(service)
    active = _serving_cluster(service, ACTIVE, reads, sources)
    pending = _serving_cluster(service, PENDING, reads, sources)
    names = {each.name for each in (active, pending) if each is not None}
    owned = owned_by(reads, RAYCLUSTERS, meta)
    gates = sources.settings.feature_gates
    seen = ServiceObservation(
        service,
        goal,
        status_of(service),
        active,
        pending,
        others=tuple(each for each in owned if each.metadata.name not in names),
        services=tuple(owned_by(reads, SERVICES, meta)),
        next_name=child_cluster_name(meta, unused_moment(meta, names, reads)),
        pending_scopes=reads.record(meta.uid).pending_scopes,
        refused_creates=refused_creates(
            reads.record(meta.uid),
            (Target(RAYCLUSTERS, meta.namespace, name) for name in sorted(names)),
            owner_reference(RAYSERVICES, meta),
        ),
        unknown_fields=sources.unknown_fields_of(service, reads),
        begun=read_upgrade(service, gates) if isinstance(goal, Problem) else None,
        definition=sources.read_definition(reads, service),
        clock_steady_since=reads.clock_steady_since,
        settings=sources.settings,
    )
    seen = replace(seen, endpoints=tuple(_endpoints(seen)))
    seen = replace(seen, routing=observe_routing(seen, reads))
    if not isinstance(seen.goal, Problem) or is_followed(seen):
        seen = replace(seen, children=tuple(_children(seen, reads)))
    if sources.assumes_serve:
        return seen
    closings = observe_closings(seen, reads, sources.cluster_spec_of, sources.dashboards)
    return replace(seen, closings=tuple(closings))


def _serving_cluster(
    service: RayService, role: str, reads: CacheReader, sources: ServiceSources
) -> ServingCluster | None:
    recorded = mapping(status_of(service).get(role))
    name = recorded.get("rayClusterName")
    if not name or not isinstance(name, str):
        return None
    key = f"{service.metadata.namespace}/{name}"
    cluster = reads.get(RAYCLUSTERS, key)
    if cluster is None:
        record = reads.record(service.metadata.uid)
        return ServingCluster(name, role, foreign=record.has_name_conflict(RAYCLUSTERS, key))
    if not is_owned_by(cluster.metadata, service.metadata.uid):
        orphaned = _was_created_for(service, cluster)
        return ServingCluster(name, role, foreign=True, orphaned=orphaned)
    spec, config = sources.cluster_spec_of(cluster), sources.config_of(cluster)
    found = ServingCluster(
        name,
        role,
        cluster,
        capacity=recorded.get("targetCapacity"),
        spec=spec,
        origin=_origin(cluster),
        config=None if isinstance(config, str) else config,
        config_problem=config if isinstance(config, str) else "",
        excludes_head=mapping(service.spec).get("excludeHeadPodFromServeSvc") is True,
    )
    if spec is None:
        return found
    head = find_head(cluster, spec, reads, domain=sources.settings.cluster_domain)
    pods = owned_by(reads, PODS, cluster.metadata)
    present = tuple(pod for pod in pods if not pod.metadata.terminating)
    found = replace(found, head=head, pods=present)
    return with_assumed_serve(found) if sources.assumes_serve else _with_serve(found, sources)


def _was_created_for(service: RayService, cluster: RayCluster) -> bool:
    """Return whether a cluster that another object owns, or none, was created for this one."""
    found = cluster.metadata.labels or {}
    origin = found.get(labels.ORIGIN_KIND), found.get(labels.ORIGIN_NAME)
    named = origin == (RAYSERVICES.kind, service.metadata.name)
    return named or cluster.metadata.controller is None


def _with_serve(found: ServingCluster, sources: ServiceSources) -> ServingCluster:
    """Return the cluster with the reports of its Serve and of the proxies that Manta probes."""
    if found.head is None:
        return found
    head, dashboards = found.head.dashboard, sources.dashboards
    found = replace(found, answer=dashboards.observation(head, ServeProbe()))
    proxies = {
        pod.metadata.uid: proxy_on(found, pod) for pod in gated_pods(found, sources.settings)
    }
    answers = {
        uid: dashboards.observation(proxy, ProxyProbe())
        for uid, proxy in proxies.items()
        if proxy is not None
    }
    found = replace(found, proxies={uid: each for uid, each in answers.items() if each is not None})
    if found.config is None:
        return found
    first, other = put_command_ids(found.config, found.capacity)
    if (outcome := dashboards.outcome(head, first)) is not None:
        return replace(found, put_outcome=outcome, put_id=other)
    return replace(found, put_outcome=dashboards.outcome(head, other), put_id=first)


def _origin(cluster: RayCluster) -> Origin:
    """Return the recorded origin of a cluster, else the one that its present state shows."""
    recorded = Origin.parse((cluster.metadata.annotations or {}).get(labels.MADE_FROM, ""))
    if recorded.identity is not None:
        return recorded
    return Origin(SpecIdentity.of(mapping(cluster.spec)))


def _children(
    seen: ServiceObservation, reads: CacheReader
) -> Iterator[tuple[Child, ObservedChild]]:
    """Yield the stable services for the cluster that they should select, desired and observed.

    There are none before a cluster serves for the first time.
    """
    present = tuple(_stable(seen, seen.active or seen.pending, reads))
    selection = wanted_selection(collect_facts(replace(seen, children=present)))
    wanted = seen.pending if selection is SelectedCluster.PENDING else seen.active
    yield from _stable(seen, wanted, reads)


def _endpoints(seen: ServiceObservation) -> Iterator[Pod]:
    """Yield the ready pods behind the observed stable service of the applications."""
    selectors = [service.spec.selector or {} for service in seen.services]
    serving = (each for each in selectors if each.get(labels.SERVE) == "true")
    selected = {each.get(labels.CLUSTER) for each in serving}
    for cluster in seen.clusters:
        if cluster.name in selected:
            yield from endpoints_of(cluster)


def _stable(
    seen: ServiceObservation,
    cluster: ServingCluster | None,
    reads: CacheReader,
) -> Iterator[tuple[Child, ObservedChild]]:
    if cluster is None or cluster.cluster is None or cluster.spec is None:
        return
    spec = None if keeps_services(seen, cluster) else seen.upgrade
    meta = seen.service.metadata
    wanted = stable_services(
        seen.service, spec, cluster.cluster, cluster.spec, cluster.heads, settings=seen.settings
    )
    for child in (*wanted, *former_services(seen.services, wanted, cluster.name)):
        yield child, observe_child(child, meta.namespace, meta.uid, reads)


# The objects whose events enqueue a RayService, and the indexes that find them.

CLUSTER_INDEX: Final = "serving cluster"
"""Index of RayServices by the keys of the RayClusters that their status names."""


def cluster_keys(service: RayService) -> Sequence[str]:
    """Index by `CLUSTER_INDEX`; yield the clusters in the status."""
    status = mapping(service.status)
    names = (mapping(status.get(role)).get("rayClusterName") for role in (ACTIVE, PENDING))
    return tuple(
        f"{service.metadata.namespace}/{name}" for name in names if name and isinstance(name, str)
    )


def origin_keys(service: Service) -> Sequence[str]:
    """Return the RayService for which a service was created; its cluster may own it."""
    found = service.metadata.labels or {}
    if found.get(labels.ORIGIN_KIND) != RAYSERVICES.kind or labels.ORIGIN_NAME not in found:
        return ()
    return (f"{service.metadata.namespace}/{found[labels.ORIGIN_NAME]}",)


WATCHES: Final[tuple[Owned[Any], ...]] = (
    Owned(RAYCLUSTERS),
    Owned(
        RAY_PODS.resource,
        label_selector=RAY_PODS.label_selector,
        indexes=RAY_PODS.indexes,
        references=References(CLUSTER_INDEX, cluster_keys, head_keys),
    ),
    Owned(SERVICES, also_enqueues=origin_keys),
    Owned(GATEWAYS, optional=True),
    Owned(HTTP_ROUTES, optional=True),
)
