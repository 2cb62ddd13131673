"""The RayCluster kind: connects observing, planning and reporting to the runtime."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import msgspec

from controller.apimachinery.custom_object import SpecificationMemo, mapping
from controller.apimachinery.problem import Problem
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
from controller.ray.api.batch_schedulers import label_problem, scheduler_labels
from controller.ray.api.definitions.crds import unknown_field_finder
from controller.ray.api.feature_gates import MTLS
from controller.ray.api.raycluster import RAYCLUSTERS
from controller.ray.api.validation.cluster import cluster_warnings, idle_warnings, validate_cluster
from controller.ray.cluster.budgets import OF_USERS, namespace_of_users, selected_cluster
from controller.ray.cluster.certificates import OBJECTS, with_expiry
from controller.ray.cluster.disruptions import OF_NODES
from controller.ray.cluster.held_deletions import definition_reader
from controller.ray.cluster.network_policy import network_policy_warnings
from controller.ray.cluster.observation import DesiredCluster
from controller.ray.cluster.observe import ClusterSources, observe_cluster
from controller.ray.cluster.outlook import cluster_outlook
from controller.ray.cluster.plan import plan_cluster
from controller.ray.cluster.rolling import with_rollout
from controller.ray.cluster.status import cluster_status
from controller.ray.dashboard import NO_DASHBOARDS
from controller.ray.head.endpoint import OUR_JOBS, RAY_PODS, Identity, named_cluster
from controller.ray.pods.builder import PodBuilder
from controller.ray.settings import CERT_MANAGER, ClusterSettings
from controller.runtime.kind import Kind, Owned

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from controller.ray.api.batch_schedulers import BatchScheduler
    from controller.ray.api.raycluster import RayCluster
    from controller.ray.cluster.observation import ClusterObservation
    from controller.ray.dashboard import Dashboards, HeadCommand, ProbeSubscription
    from controller.runtime.kind import CacheReader
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


class RayClusterKind(Kind["ClusterObservation"]):
    """Brings RayClusters to what their specifications say.

    Args:
        settings: the administrator's settings for all clusters.
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
        settings: ClusterSettings | None = None,
        dashboards: Dashboards = NO_DASHBOARDS,
        external_source: ExternalSource[ProbeSubscription, HeadCommand] | None = None,
        *,
        assumes_ray: bool = False,
    ) -> None:
        self.external_source = external_source
        self._settings = settings or ClusterSettings()
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

    def observe(self, key: str, reads: CacheReader) -> ClusterObservation | None:
        """Return everything that the plan depends on; None if the cluster is gone."""
        return observe_cluster(key, reads, self._sources)

    def problem(self, observation: ClusterObservation) -> Problem | None:
        """Return the problem of the cluster's specification, None if it is valid."""
        return observation.desired if isinstance(observation.desired, Problem) else None

    def plan(self, observation: ClusterObservation, now: datetime) -> Plan:
        """Plan for the observation."""
        return plan_cluster(observation, self._settings, now)

    def outlook(self, observation: ClusterObservation, now: datetime) -> Iterator[str]:
        """Yield what evictions, drained nodes and disuse would do."""
        return cluster_outlook(observation, now)

    def status_after(
        self,
        observation: ClusterObservation,
        plan: Plan,
        failures: tuple[Failure, ...],
        now: datetime,
    ) -> StatusPatch | None:
        """Return the plan's status, naming the first of the writes that failed."""
        if not isinstance(observation.desired, DesiredCluster):
            return plan.status
        seen = replace(with_expiry(observation, now), history=plan.memory)
        seen = with_rollout(seen, observation.desired, now)
        return cluster_status(seen, observation.desired, self._settings, failures, now)

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
