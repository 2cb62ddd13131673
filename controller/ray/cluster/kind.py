"""The RayCluster kind: connects observing, planning and reporting to the runtime; metrics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec.structs import replace
from prometheus_client.core import Metric

from controller.apimachinery.conditions import READY, find_condition, is_true, time_of
from controller.apimachinery.custom_object import (
    SpecificationMemo,
    conditions_of,
    dig,
    mapping,
    mappings,
)
from controller.apimachinery.validation import Problem
from controller.kube.objects import Certificate, KubeObject
from controller.kube.resources import (
    CLAIMS,
    CONTROLLER_REVISIONS,
    DISRUPTION_BUDGETS,
    INGRESSES,
    JOBS,
    NETWORK_POLICIES,
    ROLE_BINDINGS,
    ROLES,
    ROUTES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
)
from controller.ray.api import labels
from controller.ray.api.batch_schedulers import BatchScheduler, label_problem, scheduler_labels
from controller.ray.api.definitions import unknown_field_finder
from controller.ray.api.feature_gates import MTLS
from controller.ray.api.names import PROVISIONED, UPGRADING
from controller.ray.api.raycluster import RAYCLUSTERS, RayCluster
from controller.ray.api.validation.cluster import cluster_warnings, idle_warnings, validate_cluster
from controller.ray.cluster.certificates import OBJECTS, with_expiry
from controller.ray.cluster.conditions import reported_fields
from controller.ray.cluster.disruptions import (
    OF_NODES,
    OF_USERS,
    cluster_outlook,
    namespace_of_users,
    selected_cluster,
)
from controller.ray.cluster.held_deletions import definition_reader
from controller.ray.cluster.idle import AT_MINIMUM, IDLE, UNUSED
from controller.ray.cluster.network_policy import network_policy_warnings
from controller.ray.cluster.observation import (
    NO_HISTORY,
    AnyCluster,
    ClusterObservation,
    DesiredCluster,
    InvalidCluster,
)
from controller.ray.cluster.observe import ClusterSources, observe_cluster
from controller.ray.cluster.plan import plan_cluster
from controller.ray.cluster.rolling import with_rollout
from controller.ray.cluster.status import cluster_status
from controller.ray.dashboard.commands import NO_DASHBOARDS, Dashboards, HeadCommand
from controller.ray.dashboard.probes import ProbeSubscription
from controller.ray.head import OUR_JOBS, RAY_PODS, Identity, named_cluster
from controller.ray.pods import PodBuilder
from controller.ray.settings import CERT_MANAGER, RaySettings
from controller.runtime.kind import CacheReader, Kind, Owned
from controller.runtime.metrics import ObjectCollector, identity, object_gauge
from controller.runtime.plan import ExternalSource, Failure, Plan, StatusPatch


def unsupported_fields(
    cluster: RayCluster, scheduler: BatchScheduler | None = None
) -> tuple[str, ...]:
    """Return the labels for batch schedulers other than the chosen one, which have no effect.

    Those of pod templates are copied to the pods, where the schedulers themselves read them.
    """
    given = cluster.metadata.labels or {}
    obeyed = scheduler.obeys if scheduler is not None else frozenset[str]()
    return tuple(
        f"metadata.labels[{label}]"
        for label in scheduler_labels()
        if label in given and label not in obeyed
    )


class RayClusterKind(Kind["AnyCluster"]):
    """Brings RayClusters to what their specifications say.

    Args:
        dashboards: Ray's reports, which only rolling updates read.
        external_source: talks to Ray; in an operator the same `ControllerDashboards` as
            `dashboards`.
        assumes_ray: whether to take ready pods for nodes of Ray, in plans without Ray.
    """

    primary = RAYCLUSTERS
    owned = (
        RAY_PODS,
        Owned(SERVICES, also_enqueues=named_cluster),
        Owned(SERVICE_ACCOUNTS),  # whole, like claims: users name their own
        Owned(CLAIMS, also_enqueues=named_cluster),
        Owned(SECRETS, label_selector=labels.CLUSTER, also_enqueues=named_cluster),
        Owned(INGRESSES, label_selector=labels.CLUSTER),
        # whatever its gate says, so that what was made while it was on is deleted
        Owned(NETWORK_POLICIES, label_selector=labels.CLUSTER, optional=True),
        # whole: pods with a budget of ours and one of the user's could not be evicted
        Owned(
            DISRUPTION_BUDGETS,
            indexes={OF_USERS: namespace_of_users},
            also_enqueues=selected_cluster,
            optional=True,
        ),
        Owned(ROUTES, label_selector=labels.CLUSTER, optional=True),
        Owned(
            JOBS,
            label_selector=OUR_JOBS,
            also_enqueues=named_cluster,
        ),
        Owned(ROLES, label_selector=labels.CLUSTER),
        Owned(ROLE_BINDINGS, label_selector=labels.CLUSTER),
        Owned(CONTROLLER_REVISIONS, label_selector=labels.CLUSTER, optional=True),
    )

    def __init__(
        self,
        settings: RaySettings | None = None,
        dashboards: Dashboards = NO_DASHBOARDS,
        external_source: ExternalSource[ProbeSubscription, HeadCommand] | None = None,
        *,
        assumes_ray: bool = False,
    ) -> None:
        self.external_source = external_source
        self._settings = settings or RaySettings()
        scheduler = self._settings.batch_scheduler
        groups = scheduler.groups if scheduler is not None else ()
        by_cert_manager = self._settings.mtls_issuer == CERT_MANAGER
        has_mtls = self._settings.feature_gates.enabled(MTLS)
        certificates = OBJECTS if has_mtls and by_cert_manager else ()
        self.owned = (
            *type(self).owned,
            *(Owned(each, optional=True) for each in groups),
            *(Owned(each, label_selector=labels.CLUSTER, optional=True) for each in certificates),
        )
        if self._settings.watch_nodes:
            self.owned = (*self.owned, *OF_NODES)
        self._sources = ClusterSources(
            SpecificationMemo(self._desired),
            unknown_field_finder(),
            definition_reader(),
            self._settings,
            None if assumes_ray else dashboards,
        )

    def observe(self, key: str, reads: CacheReader) -> AnyCluster | None:
        """Return everything that the plan depends on; None if the cluster is gone."""
        return observe_cluster(key, reads, self._sources)

    def problem(self, observation: AnyCluster) -> Problem | None:
        """Return the problem of the cluster's specification, None if it is valid."""
        return observation.problem if isinstance(observation, InvalidCluster) else None

    def plan(self, observation: AnyCluster, now: datetime) -> Plan:
        """Plan for the observation."""
        return plan_cluster(observation, now)

    def outlook(self, observation: AnyCluster, now: datetime) -> Iterator[str]:
        """Yield what evictions, drained nodes and disuse would do."""
        return cluster_outlook(replace(observation, now=now))

    def status_after(
        self, observation: AnyCluster, plan: Plan, failures: tuple[Failure, ...], now: datetime
    ) -> StatusPatch | None:
        """Return the plan's status, naming the first of the writes that failed."""
        if not isinstance(observation, ClusterObservation):
            return plan.status
        seen = replace(observation, now=now, history=plan.memory or NO_HISTORY)
        seen = with_rollout(with_expiry(seen))
        return cluster_status(seen, failures)

    def _desired(self, cluster: RayCluster) -> DesiredCluster | Problem:
        gates = self._settings.feature_gates
        spec = validate_cluster(cluster, gates)
        if isinstance(spec, Problem) and cluster.metadata.terminating:
            problem, cluster = spec, _head_alone(cluster)
            spec = validate_cluster(cluster, gates)
            spec = problem if isinstance(spec, Problem) else spec
        scheduler = self._settings.batch_scheduler
        if isinstance(spec, Problem):
            return spec
        mistake = label_problem(scheduler, cluster.metadata)
        if mistake is not None and not cluster.metadata.terminating:
            return mistake.or_reason("InvalidRayClusterMetadata")
        identity = Identity.of(cluster, spec, domain=self._settings.cluster_domain)
        builder = PodBuilder(cluster, spec, identity, self._settings)
        return DesiredCluster(
            spec,
            identity,
            builder,
            spec.desired_workers,
            reported_fields(spec),
            unsupported_fields=unsupported_fields(cluster, scheduler),
            warnings=(
                *cluster_warnings(spec),
                *idle_warnings(cluster, spec),
                *network_policy_warnings(cluster, spec),
            ),
        )


_OF_CLEANUP: Final = ("headGroupSpec", "gcsFaultToleranceOptions")


def _head_alone(cluster: RayCluster) -> RayCluster:
    """Return a cluster with the fields that the removal of its state from Redis needs.

    While it is deleted, an invalid edit of others has no effect on that.
    """
    spec = mapping(cluster.spec)
    needed = {name: spec[name] for name in _OF_CLEANUP if name in spec}
    return msgspec.structs.replace(cluster, spec=needed)


# A RayCluster's metrics: KubeRay's and Manta's own, computed from the cache when scraped.
#
# Reconciles count nothing, so a deleted RayCluster leaves no metrics behind.

_STATES: Final = ("desired", "updated", "ready", "outdated")
_GAUGES: Final = (
    (
        "kuberay_cluster_info",
        "Metadata information about RayCluster custom resources",
        "owner_kind",
    ),
    (
        "kuberay_cluster_condition_provisioned",
        "Whether the RayCluster was provisioned",
        "condition",
    ),
    (
        "kuberay_cluster_provisioned_duration_seconds",
        "Seconds from the creation of a RayCluster until all of its pods were ready",
    ),
    (
        "manta_cluster_not_ready",
        "1 for a RayCluster that is not ready, by the reason of its condition Ready",
        "reason",
    ),
    (
        "manta_upgrade_in_progress",
        "1 for a RayCluster that is being upgraded, with the reason of its condition Upgrading",
        "reason",
    ),
    (
        "manta_upgrade_start_time_seconds",
        "When the upgrade of a RayCluster began, or was resumed, in seconds since 1970",
    ),
    (
        "manta_upgrade_pods",
        "Worker pods of a RayCluster that is being upgraded, by group and state",
        "group",
        "state",
    ),
    (
        "manta_cluster_unused_since_seconds",
        "Since when nobody has used a RayCluster that asks for it, in seconds since 1970",
    ),
    (
        "manta_cluster_unused_gpus",
        "GPUs of a RayCluster that nobody uses",
        "owner_kind",
    ),
)
"""Names, texts and further labels."""


class ClusterCollector(ObjectCollector["RayCluster"]):
    """Collects `kuberay_cluster_*`, `manta_cluster_*` and `manta_upgrade_*`."""

    def metrics(self, current: Iterable[RayCluster], /) -> Iterable[Metric]:
        """Yield the samples of every cluster."""
        families = tuple(object_gauge(*each) for each in _GAUGES)
        info, provisioned, duration, not_ready, upgrading, started, pods, unused, gpus = families
        for cluster in current:
            own, owner_kind = identity(cluster.metadata), _owner_kind(cluster)
            conditions = conditions_of(cluster)
            info.add_metric([*own, owner_kind], 1)
            is_provisioned = is_true(conditions, PROVISIONED)
            provisioned.add_metric([*own, str(is_provisioned).lower()], 1)
            created = time_of(cluster.metadata.creation_timestamp)
            reached = _since(conditions, PROVISIONED)
            if is_provisioned and created is not None and reached is not None:
                duration.add_metric(own, (reached - created).total_seconds())
            if not is_true(conditions, READY):
                not_ready.add_metric([*own, _reason(conditions, READY) or ""], 1)
            if is_true(conditions, UPGRADING):
                upgrading.add_metric([*own, str(_reason(conditions, UPGRADING))], 1)
                if (began := _since(conditions, UPGRADING)) is not None:
                    started.add_metric(own, began.timestamp())
                for group, state, count in _counts(dig(cluster.status, "upgrade", "groups")):
                    pods.add_metric([*own, group, state], count)
            since = _since(conditions, IDLE)
            if since is not None and _reason(conditions, IDLE) in {UNUSED, AT_MINIMUM}:
                unused.add_metric(own, since.timestamp())
                gpus.add_metric([*own, owner_kind], _gpus(cluster))
        return families


def _reason(conditions: Sequence[Mapping[str, Any]], kind: str) -> Any:
    return (find_condition(conditions, kind) or {}).get("reason")


def _since(conditions: Sequence[Mapping[str, Any]], kind: str) -> datetime | None:
    return time_of((find_condition(conditions, kind) or {}).get("lastTransitionTime"))


def _counts(groups: Any) -> Iterator[tuple[str, str, int]]:
    """Yield group, state and number of pods; KubeRay's definition drops `status.upgrade`."""
    for group in mappings(groups):
        for state in _STATES:
            count = group.get(state)
            if isinstance(count, int):
                yield str(group.get("name")), state, count


def _gpus(cluster: RayCluster) -> float:
    try:
        return float(cluster.status.get("desiredGPU") or 0)
    except (TypeError, ValueError):
        return 0.0  # a quantity that nobody can have asked for in good faith


def _owner_kind(cluster: RayCluster) -> str:
    kind = (cluster.metadata.labels or {}).get(labels.ORIGIN_KIND, "")
    return kind if kind in {"RayJob", "RayService"} else "None"


class CertificateCollector(ObjectCollector["KubeObject"]):
    """Collects when the certificates of clusters with mTLS end, from their objects or Secrets."""

    def metrics(self, current: Iterable[KubeObject], /) -> Iterable[Metric]:
        """Yield one sample for each certificate that was issued."""
        ends = object_gauge(
            "manta_cluster_certificate_end_time_seconds",
            "When a certificate of a RayCluster with mTLS ends, in seconds since 1970",
            "cluster",
        )
        for each in current:
            if (end := _end_of(each)) is not None:
                cluster = (each.metadata.labels or {}).get(labels.CLUSTER, "")
                ends.add_metric([*identity(each.metadata), cluster], end.timestamp())
        return [ends]


def _end_of(each: KubeObject) -> datetime | None:
    if isinstance(each, Certificate):
        return time_of(each.status.not_after)
    return time_of((each.metadata.annotations or {}).get(labels.CERTIFICATE_END))
