"""The input of a RayService's plan: the RayService and what belongs to it, as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from controller.apimachinery.conditions import ConditionSet, find_condition, is_true
from controller.apimachinery.custom_object import dig, mapping, parse
from controller.apimachinery.validation import Problem
from controller.kube.objects import Gateway, HTTPRoute, Pod, Service
from controller.ray.api import labels
from controller.ray.api.definitions import CLUSTER_FIELDS
from controller.ray.api.names import is_suspension_asked
from controller.ray.api.pod_state import is_head
from controller.ray.api.ray_options import ServeConfig, read_serve_config
from controller.ray.api.raycluster import RAYCLUSTERS, ClusterSpec, RayCluster
from controller.ray.api.rayservice import (
    INVALID_SPEC_REASON,
    RAYSERVICES,
    ClusterUpgradeOptions,
    RayService,
    RayServiceSpec,
    ReadableUpgrade,
    UpgradeType,
    read_upgrade_options,
    validate_service,
)
from controller.ray.children import Child, ObservedChild
from controller.ray.children.services import stable_head_service_name
from controller.ray.dashboard import Head
from controller.ray.dashboard.commands import CommandOutcome
from controller.ray.dashboard.probes import ProbeObservation
from controller.ray.head import HeadIncarnation, serve_ports, template_ports
from controller.ray.service.identity import (
    ConfigTooLarge,
    Origin,
    SpecIdentity,
    StoredConfig,
    store,
)
from controller.ray.service.rollout import FULL, Shares
from controller.ray.settings import RaySettings
from controller.runtime.definitions import (
    DefinitionReader,
    DefinitionsReader,
    InstalledDefinition,
)
from controller.runtime.plan import Event, Failure, MergePatch
from controller.runtime.status import status_commit

CLUSTER_SCOPE: Final = "cluster"
ACTIVE: Final = "activeServiceStatus"
PENDING: Final = "pendingServiceStatus"
UNKNOWN_ORIGIN: Final = Origin(None)
_BEFORE: Final = datetime.min.replace(tzinfo=UTC)

CLOSING_LEAD: Final = timedelta(seconds=30)
"""Time for requests to end at a cluster whose capacity goes, in an incremental upgrade."""

CLOSING_PATIENCE: Final = timedelta(seconds=30)
"""Time after which a deletion no longer waits for connections that are still open."""


class ServiceGoal(msgspec.Struct, frozen=True):
    """The user's goal, read from a valid specification.

    Attributes:
        config: the applications to serve.
        annotations: annotations of a cluster with this goal: identity and config.
        stamps: KubeRay's annotations of what a cluster with this goal was created from; with
            another version than its own, KubeRay replaces them and creates no new cluster.
    """

    spec: RayServiceSpec
    identity: SpecIdentity
    config: ServeConfig
    annotations: Mapping[str, str]
    stamps: Mapping[str, str]


class ServingCluster(msgspec.Struct, frozen=True):
    """One of the two clusters that the status names.

    Attributes:
        role: `ACTIVE` or `PENDING`, the field of the status that names it.
        capacity: Serve's wanted target capacity in percent, as recorded; None if it has none.
        foreign: whether a RayCluster of another owner has the name.
        orphaned: whether it was created for this RayService, and another client took its owner
            reference away; it is foreign too.
        spec: the specification of `cluster`; None if there is none that can be read.
        config: the Serve config that is stored on it; None if there is none.
        config_problem: reason why the stored config cannot be read; empty if it can.
        answer: Serve's report; None before the first probe.
        put_outcome: outcome of the PUT of the stored config with the present capacity.
        put_id: id of the next PUT of that config and capacity.
        proxies: answers of the Serve proxies that Manta probes, by uid of the pod.
        excludes_head: whether its head is to get no requests.
    """

    name: str
    role: str
    cluster: RayCluster | None = None
    capacity: int | None = None
    foreign: bool = False
    orphaned: bool = False
    spec: ClusterSpec | None = None
    origin: Origin = UNKNOWN_ORIGIN
    head: HeadIncarnation | None = None
    config: StoredConfig | None = None
    config_problem: str = ""
    answer: ProbeObservation | None = None
    put_outcome: CommandOutcome | None = None
    put_id: str = ""
    pods: tuple[Pod, ...] = ()
    proxies: Mapping[str, ProbeObservation] = msgspec.field(
        default_factory=dict[str, ProbeObservation]
    )
    excludes_head: bool = False

    @property
    def suspended(self) -> bool:
        """True if the RayCluster is to have no pods."""
        return self.cluster is not None and bool(mapping(self.cluster.spec).get("suspend"))

    @property
    def live(self) -> RayCluster | None:
        """The RayCluster; None if it does not exist or is being deleted."""
        return None if self.cluster is None or self.cluster.metadata.terminating else self.cluster

    @property
    def exists(self) -> bool:
        """True if the RayCluster exists and is not being deleted."""
        return self.live is not None

    @property
    def annotations(self) -> Mapping[str, str]:
        """The annotations of the RayCluster; empty if it does not exist."""
        return (self.cluster.metadata.annotations if self.cluster is not None else None) or {}

    @property
    def upgrade_options(self) -> ClusterUpgradeOptions | None:
        """The options of an incremental upgrade that are stored on it; None if there are none."""
        stored = self.annotations.get(labels.UPGRADE_OPTIONS)
        return None if stored is None else read_upgrade_options(stored)

    @property
    def heads(self) -> tuple[Pod, ...]:
        """Its head pods."""
        return tuple(pod for pod in self.pods if is_head(pod))

    @property
    def workers(self) -> tuple[Pod, ...]:
        """Its worker pods."""
        return tuple(pod for pod in self.pods if not is_head(pod))


class Closing(msgspec.Struct, frozen=True):
    """The end of the connections to a cluster that gets no new requests.

    Attributes:
        head: dashboard of its ready head.
        due: time from which the cluster may lose what serves the requests.
        ends: whether it is deleted then.
        outcome: outcome of the command that closes the connections; None while it is open.
    """

    cluster: str
    head: Head
    due: datetime
    ends: bool
    outcome: CommandOutcome | None = None

    @property
    def id(self) -> str:
        """Id of the command."""
        return f"close-{self.due.timestamp():.0f}"

    @property
    def deadline(self) -> datetime:
        """Time at which nothing waits for it any longer."""
        return self.due + CLOSING_PATIENCE

    def is_over(self, now: datetime) -> bool:
        """Return whether nothing waits for it, also because a clock that was ahead set `due`."""
        return self.outcome is not None or not self.due - CLOSING_LEAD <= now < self.deadline


class Routing(msgspec.Struct, frozen=True):
    """The objects that divide the requests of a RayService between its clusters.

    Attributes:
        wanted: whether the RayService asks for it.
        served: whether the API server has the Gateway API.
        children: Gateway, route and the services of both clusters, desired and observed.
    """

    wanted: bool = False
    served: bool = True
    children: tuple[tuple[Child, ObservedChild], ...] = ()
    gateway: Gateway | None = None
    route: HTTPRoute | None = None


NO_ROUTING: Final = Routing()


class ServiceObservation(msgspec.Struct, frozen=True):
    """A RayService and what belongs to it.

    Attributes:
        goal: the user's goal, or the `Problem` that makes the RayService invalid.
        status: its status without fields of the wrong type.
        active: the cluster that serves; None if the status names none.
        pending: the cluster that takes over; None if the status names none.
        next_name: name of the next cluster, never used before.
        services: all services of this RayService.
        children: the stable services, desired and observed.
        routing: the objects that divide the requests in an incremental upgrade.
        closings: the clusters whose connections are being closed.
        endpoints: ready pods to which the stable service of the applications leads.
        refused_creates: earlier creates of clusters that the API server has refused.
        begun: what is valid of the fields that an upgrade needs, of an invalid specification.
        definition: the fields that the installed definitions of RayServices and RayClusters lack.
        now: the time of the plan; not known while observing, so that nothing is waited for.
    """

    service: RayService
    goal: ServiceGoal | Problem
    status: Mapping[str, Any]
    active: ServingCluster | None = None
    pending: ServingCluster | None = None
    others: tuple[RayCluster, ...] = ()
    next_name: str = ""
    services: tuple[Service, ...] = ()
    children: tuple[tuple[Child, ObservedChild], ...] = ()
    routing: Routing = NO_ROUTING
    closings: tuple[Closing, ...] = ()
    endpoints: tuple[Pod, ...] = ()
    pending_scopes: frozenset[str] = frozenset()
    refused_creates: tuple[Failure, ...] = ()
    unknown_fields: str = ""
    begun: ReadableUpgrade | None = None
    settings: RaySettings = msgspec.field(default_factory=RaySettings)
    definition: InstalledDefinition = msgspec.field(default_factory=InstalledDefinition)
    clock_steady_since: datetime | None = None
    now: datetime = _BEFORE

    @property
    def valid_goal(self) -> ServiceGoal:
        """The goal of a RayService that is known to be valid."""
        assert not isinstance(self.goal, Problem)
        return self.goal

    @property
    def wanted_suspension(self) -> bool | None:
        """`spec.rayClusterConfig.suspend`; None if it is not given, or false and not valid."""
        if not isinstance(self.goal, Problem):
            return self.goal.spec.ray_cluster_config.get("suspend")
        return is_suspension_asked(self.service, self.goal, "rayClusterConfig") or None

    @property
    def upgrade(self) -> RayServiceSpec:
        """The specification, or what is valid of it and needed by an upgrade that has begun."""
        if not isinstance(self.goal, Problem):
            return self.goal.spec
        assert self.begun is not None
        return self.begun.spec

    def is_known(self, field: str) -> bool:
        """Return whether a field of `upgrade` is as the user wants it, because it is valid."""
        return self.begun is None or field not in self.begun.invalid

    @property
    def upgrade_options(self) -> ClusterUpgradeOptions | None:
        """The options of an incremental upgrade; those it began with if the user's are invalid."""
        strategy = self.upgrade.upgrade_strategy
        if self.begun is None or strategy.type == UpgradeType.INCREMENTAL.value:
            return strategy.cluster_upgrade_options
        stored = (each.upgrade_options for each in (self.pending, self.active) if each is not None)
        return next((each for each in stored if each is not None), None)

    @property
    def clusters(self) -> tuple[ServingCluster, ...]:
        """The clusters that the status names."""
        return tuple(each for each in (self.active, self.pending) if each is not None)

    def awaits_closing(self, cluster: str) -> bool:
        """Return whether a cluster must keep what serves its connections."""
        return any(each.cluster == cluster and not each.is_over(self.now) for each in self.closings)

    def recorded(self, role: str) -> Mapping[str, Any]:
        """Return the status's record of the cluster in this role."""
        return mapping(self.status.get(role))

    @property
    def is_incremental(self) -> bool:
        """True if the pending cluster takes over step by step, as decided at its start."""
        return self.active is not None and "targetCapacity" in self.recorded(PENDING)

    @property
    def shares(self) -> Shares:
        """The stored capacities and weights; all is the active cluster's if nothing is divided."""
        active, pending = self.recorded(ACTIVE), self.recorded(PENDING)
        if not self.is_incremental:
            return Shares()
        return Shares(
            active_capacity=active.get("targetCapacity", FULL),
            pending_capacity=pending.get("targetCapacity", 0),
            pending_weight=pending.get("trafficRoutedPercent", 0),
        )

    @property
    def conditions(self) -> Sequence[Mapping[str, Any]]:
        """The stored conditions."""
        return self.status.get("conditions", ())

    def condition(self, kind: str) -> Mapping[str, Any]:
        """Return a stored condition; empty if there is none of this type."""
        return find_condition(self.conditions, kind) or {}

    def is_true(self, kind: str) -> bool:
        """Return whether a stored condition is True."""
        return is_true(self.conditions, kind)

    def condition_set(self) -> ConditionSet:
        """Return the stored conditions, to be changed now."""
        return ConditionSet(self.conditions, self.service.metadata.generation, self.now)

    def commit(
        self,
        scope: str,
        conditions: ConditionSet,
        changes: Mapping[str, Any],
        event: Event | None = None,
    ) -> MergePatch:
        """Return the write of the status that stores changes and conditions together.

        Its precondition is the observed resourceVersion: it happens once, or not at all.
        """
        meta = self.service.metadata
        status = {
            **changes,
            "conditions": conditions.as_list(),
            "observedGeneration": meta.generation,
        }
        return status_commit(RAYSERVICES, meta, scope, status, event)


# Fields on which a RayService's planner relies: without them clusters would be replaced.
#
# A status without clusters looks like that of a new RayService. A specification without worker
# groups asks for another cluster, and one without `suspend` asks to serve. While a definition lacks
# such a field, no cluster, service or config of a RayService is written, nor the RayService itself:
# a write would store it without the missing fields.

_CLUSTER: Final = (*CLUSTER_FIELDS, "workerGroupSpecs.maxReplicas")
_ROLLOUT: Final = (
    "rayClusterName",
    "targetCapacity",
    "trafficRoutedPercent",
    "lastTrafficMigratedTime",
)
RELIED_ON: Final = (
    "spec.rayClusterConfig",
    *(f"spec.rayClusterConfig.{field}" for field in _CLUSTER),
    "spec.serveConfigV2",
    "spec.upgradeStrategy",
    "spec.upgradeStrategy.type",
    "spec.upgradeStrategy.clusterUpgradeOptions",
    "spec.rayClusterDeletionDelaySeconds",
    "spec.suspend",
    "spec.managedBy",
    *(
        path
        for role in (ACTIVE, PENDING)
        for path in (f"status.{role}", *(f"status.{role}.{field}" for field in _ROLLOUT))
    ),
    "status.conditions",
    "status.observedGeneration",
)
"""Fields of a RayService that decide what it serves and on which clusters."""

RELIED_ON_IN_CLUSTERS: Final = (*(f"spec.{field}" for field in _CLUSTER), "status.conditions")
"""Fields of a RayCluster that are compared with the RayService's specification."""

_CONSEQUENCE: Final = (
    "RayServices are left as they are: no cluster is created, changed or deleted for them, and "
    "what serves continues"
)


def definitions_reader() -> DefinitionsReader:
    """Return a reader of what the installed definitions of RayServices and RayClusters lack."""
    return DefinitionsReader(
        DefinitionReader(RAYSERVICES, lambda _schema: RELIED_ON, _CONSEQUENCE),
        DefinitionReader(RAYCLUSTERS, lambda _schema: RELIED_ON_IN_CLUSTERS, _CONSEQUENCE),
    )


# Reads the user's goal from a RayService.


def read_goal(service: RayService, settings: RaySettings) -> ServiceGoal | Problem:
    """Return the user's goal, or the first problem of the specification."""
    spec = validate_service(service, settings.feature_gates)
    if isinstance(spec, Problem):
        return spec
    if not _has_port(spec):
        return Problem(
            "spec.rayClusterConfig.headGroupSpec.template.spec.containers[0].ports",
            "has no port named `serve` or `serve-...`, so that no request could reach the "
            "applications; add one, such as 8000, or give the ports in spec.serveService",
            INVALID_SPEC_REASON,
        )
    head_service = stable_head_service_name(service.metadata)
    if dig(spec.serve_service, "metadata", "name") == head_service:
        return Problem(
            "spec.serveService.metadata.name",
            f"is {head_service}, the name of the service of the head; choose another one",
            INVALID_SPEC_REASON,
        )
    config = read_serve_config(spec.serve_config)
    try:
        stored = store(config.body)
    except ConfigTooLarge as error:
        return Problem("spec.serveConfigV2", str(error), INVALID_SPEC_REASON)
    identity = SpecIdentity.of(spec.ray_cluster_config)
    stamps = {
        labels.SPEC_HASH: str(identity),
        labels.NUM_WORKER_GROUPS: str(len(identity.groups)),
        labels.KUBERAY_VERSION: settings.version,
    }
    origin = Origin(identity, service.metadata.generation)
    annotations = {labels.MADE_FROM: str(origin)} | stored | _stored_options(spec)
    return ServiceGoal(spec, identity, config, annotations, stamps)


def _stored_options(spec: RayServiceSpec) -> dict[str, str]:
    """Return the annotation with the options of an incremental upgrade; empty without them."""
    strategy = spec.upgrade_strategy
    if strategy.type != UpgradeType.INCREMENTAL.value:
        return {}
    options = msgspec.json.encode(strategy.cluster_upgrade_options).decode()
    return {labels.UPGRADE_OPTIONS: options}


def _has_port(spec: RayServiceSpec) -> bool:
    """Return whether the stable service of the applications has a port."""
    if dig(spec.serve_service, "spec", "ports"):
        return True
    return bool(serve_ports(template_ports(parse(spec.ray_cluster_config, ClusterSpec))))
