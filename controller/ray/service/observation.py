"""The input of a RayService's plan: the RayService and what belongs to it, as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.custom_object import mapping
from controller.apimachinery.problem import Problem
from controller.ray.api.pod_state import is_head
from controller.ray.dashboard import ProbeObservation
from controller.ray.service.cluster_identity import Origin
from controller.runtime.reconcile.definitions.installed_definition import InstalledDefinition

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from controller.kube.objects import Gateway, HTTPRoute, Pod, Service
    from controller.ray.api.fields.serve_config import ServeConfig
    from controller.ray.api.raycluster import ClusterSpec, RayCluster
    from controller.ray.api.rayservice import ClusterUpgradeOptions, RayService, RayServiceSpec
    from controller.ray.children.child import Child
    from controller.ray.children.drift import ObservedChild
    from controller.ray.dashboard import CommandOutcome, Head
    from controller.ray.head.incarnation import HeadIncarnation
    from controller.ray.service.cluster_identity import SpecIdentity
    from controller.ray.service.stored_config import StoredConfig
    from controller.runtime.kind import CreateError

CLUSTER_SCOPE: Final = "cluster"
ACTIVE: Final = "activeServiceStatus"
PENDING: Final = "pendingServiceStatus"
UNKNOWN_ORIGIN: Final = Origin(None)

CLOSING_LEAD: Final = timedelta(seconds=30)
"""Time for requests to end at a cluster whose capacity goes, in an incremental upgrade."""

CLOSING_PATIENCE: Final = timedelta(seconds=30)
"""Time after which a deletion no longer waits for connections that are still open."""


@dataclass(frozen=True, slots=True)
class ServiceGoal:
    """The user's goal, read from a valid specification.

    Attributes:
        spec: the specification.
        identity: identity of the wanted cluster.
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


@dataclass(frozen=True, slots=True)
class ServingCluster:
    """One of the two clusters that the status names.

    Attributes:
        name: recorded name.
        role: `ACTIVE` or `PENDING`, the field of the status that names it.
        cluster: the RayCluster; None if it does not exist.
        foreign: whether a RayCluster of another owner has the name.
        orphaned: whether it was created for this RayService, and another client took its owner
            reference away; it is foreign too.
        spec: the specification of `cluster`; None if there is none that can be read.
        origin: the source of `cluster`.
        head: its running head.
        config: the Serve config that is stored on it; None if there is none.
        config_problem: reason why the stored config cannot be read; empty if it can.
        answer: Serve's report; None before the first probe.
        put_outcome: outcome of the PUT of the stored config with the present capacity.
        put_id: id of the next PUT of that config and capacity.
        pods: its pods that are not being deleted.
        proxies: answers of the Serve proxies that Manta probes, by uid of the pod.
    """

    name: str
    role: str
    cluster: RayCluster | None = None
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
    proxies: Mapping[str, ProbeObservation] = field(default_factory=dict[str, ProbeObservation])

    @property
    def exists(self) -> bool:
        """True if the RayCluster exists and is not being deleted."""
        return self.cluster is not None and not self.cluster.metadata.terminating

    @property
    def heads(self) -> tuple[Pod, ...]:
        """Its head pods."""
        return tuple(pod for pod in self.pods if is_head(pod))

    @property
    def workers(self) -> tuple[Pod, ...]:
        """Its worker pods."""
        return tuple(pod for pod in self.pods if not is_head(pod))


@dataclass(frozen=True, slots=True)
class Closing:
    """The end of the connections to a cluster that gets no new requests.

    Attributes:
        cluster: name of the cluster.
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


@dataclass(frozen=True, slots=True)
class Routing:
    """The objects that divide the requests of a RayService between its clusters.

    Attributes:
        wanted: whether the RayService asks for it.
        served: whether the API server has the Gateway API.
        children: Gateway, route and the services of both clusters, desired and observed.
        gateway: the Gateway, if it exists and is ours.
        route: the route, if it exists and is ours.
    """

    wanted: bool = False
    served: bool = True
    children: tuple[tuple[Child, ObservedChild], ...] = ()
    gateway: Gateway | None = None
    route: HTTPRoute | None = None


NO_ROUTING: Final = Routing()


@dataclass(frozen=True, slots=True)
class ServiceObservation:
    """A RayService and what belongs to it.

    Attributes:
        service: the RayService.
        goal: the user's goal, or the `Problem` that makes the RayService invalid.
        status: its status without fields of the wrong type.
        active: the cluster that serves; None if the status names none.
        pending: the cluster that takes over; None if the status names none.
        others: RayClusters of this RayService that the status does not name.
        next_name: name of the next cluster, never used before.
        services: all services of this RayService.
        children: the stable services, desired and observed.
        routing: the objects that divide the requests in an incremental upgrade.
        closings: the clusters whose connections are being closed.
        endpoints: ready pods to which the stable service of the applications leads.
        pending_scopes: scopes in which the outcome of a write is unknown.
        create_errors: errors of refused creates, by name of the object.
        unknown_fields: a sentence that names the unknown fields of pod templates; may be empty.
        begun: what an upgrade that has begun needs of an invalid specification; None if that is
            invalid, too.
        definition: the fields that the installed definitions of RayServices and RayClusters lack.
        clock_steady_since: time since which the clock has not jumped; None if unknown.
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
    create_errors: tuple[tuple[str, CreateError], ...] = ()
    unknown_fields: str = ""
    begun: RayServiceSpec | None = None
    definition: InstalledDefinition = field(default_factory=InstalledDefinition)
    clock_steady_since: datetime | None = None

    @property
    def valid_goal(self) -> ServiceGoal:
        """The goal of a RayService that is known to be valid."""
        assert not isinstance(self.goal, Problem)
        return self.goal

    @property
    def upgrade(self) -> RayServiceSpec | None:
        """The specification, or what is valid of it and needed by an upgrade that has begun."""
        return self.begun if isinstance(self.goal, Problem) else self.goal.spec

    @property
    def upgrade_options(self) -> ClusterUpgradeOptions | None:
        """The options of an incremental upgrade."""
        spec = self.upgrade
        return None if spec is None else spec.upgrade_strategy.cluster_upgrade_options

    @property
    def excludes_head(self) -> bool:
        """See `excludes_head` below."""
        return excludes_head(self.service)

    @property
    def clusters(self) -> tuple[ServingCluster, ...]:
        """The clusters that the status names."""
        return tuple(each for each in (self.active, self.pending) if each is not None)

    def awaits_closing(self, cluster: str, now: datetime) -> bool:
        """Return whether a cluster must keep what serves its connections."""
        return any(each.cluster == cluster and not each.is_over(now) for each in self.closings)

    def recorded(self, role: str) -> Mapping[str, Any]:
        """Return the status's record of the cluster in this role."""
        return mapping(self.status.get(role))


def excludes_head(service: RayService) -> bool:
    """Return whether the head gets no requests, even if the specification is invalid."""
    return mapping(service.spec).get("excludeHeadPodFromServeSvc") is True
