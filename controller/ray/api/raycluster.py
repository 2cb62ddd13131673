"""RayCluster: the cached view and its typed specification.

The cached object keeps `spec` and `status` as plain data. A field of a wrong type therefore does
not break the cache; what parses it raises an error with its path.
"""

from __future__ import annotations

import base64
import secrets
from typing import Annotated, Any, ClassVar, Final, Literal

import msgspec

from controller.apimachinery.custom_object import only, parse, read_conditions
from controller.kube.objects import ObjectMeta, View
from controller.kube.resources import Resource
from controller.ray.api.names import RayObject, checked_name
from controller.ray.api.upgrade_strategy import RayClusterUpgradeStrategy

LARGEST_INT32: Final = 2**31 - 1

Template = dict[str, Any]
"""A pod template stays plain data and is copied to pods unchanged."""


class _ManagedSpec(View, frozen=True):
    """`f:spec` of a field manager's entry."""

    suspend: Any = msgspec.field(default=None, name="f:suspend")


class _ManagedFields(View, frozen=True):
    """`fieldsV1` of a field manager's entry."""

    spec: _ManagedSpec | None = msgspec.field(default=None, name="f:spec")


class FieldManager(View, frozen=True):
    """`metadata.managedFields[]`, of its fields only whether they include `spec.suspend`."""

    manager: str = ""
    operation: str = ""
    time: str | None = None
    fields: _ManagedFields | None = msgspec.field(default=None, name="fieldsV1")

    @property
    def owns_suspend(self) -> bool:
        """Whether this manager was the last to set `spec.suspend`."""
        spec = self.fields.spec if self.fields is not None else None
        return spec is not None and spec.suspend is not None


class ClusterMeta(ObjectMeta, frozen=True):
    """`metadata` of a RayCluster."""

    managed_fields: tuple[FieldManager, ...] = ()


class RayCluster(RayObject, frozen=True, gc=True, weakref=True):
    """A cached RayCluster."""

    metadata: ClusterMeta = ClusterMeta()
    status_fields: ClassVar = {
        "conditions": read_conditions,
        "desiredGPU": only(str),
        "endpoints": only(dict),
        "head": only(dict),
        "state": only(str),
        "stateTransitionTimes": only(dict),
        "upgrade": only(dict),
    }


RAYCLUSTERS: Final = Resource("ray.io", "v1", "rayclusters", "RayCluster", RayCluster)


class AuthOptions(View, frozen=True):
    """`spec.authOptions`."""

    mode: str = ""
    secret_name: str | None = None
    enable_k8s_token_auth: bool | None = msgspec.field(default=None, name="enableK8sTokenAuth")

    @property
    def by_token(self) -> bool:
        """True if requests need a token; true also if no mode is set."""
        return self.mode in {"", "token"}

    @property
    def by_kubernetes(self) -> bool:
        """True if tokens are service account tokens, which the API server reviews."""
        return self.by_token and bool(self.enable_k8s_token_auth)


class AutoscalerOptions(View, frozen=True):
    """`spec.autoscalerOptions`, without the fields that only Ray reads."""

    resources: dict[str, Any] | None = None
    image: str | None = None
    image_pull_policy: str | None = None
    security_context: dict[str, Any] | None = None
    idle_timeout_seconds: int | None = None
    version: str | None = None
    env: tuple[dict[str, Any], ...] = ()
    env_from: tuple[dict[str, Any], ...] = ()
    volume_mounts: tuple[dict[str, Any], ...] = ()
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()


class GcsStorage(View, frozen=True):
    """`spec.gcsFaultToleranceOptions.storage`."""

    claim_name: str | None = None
    size: str | int | float | None = None
    storage_class_name: str | None = None
    access_modes: tuple[str, ...] = ()
    sub_path: str | None = None
    deletion_policy: str | None = None


class GcsFaultToleranceOptions(View, frozen=True):
    """`spec.gcsFaultToleranceOptions`."""

    backend: str | None = None
    redis_address: str | None = None
    redis_username: dict[str, Any] | None = None
    redis_password: dict[str, Any] | None = None
    external_storage_namespace: str | None = None
    storage: GcsStorage | None = None

    @property
    def embedded(self) -> bool:
        """True if the state is stored in a volume of the head instead of in Redis."""
        return self.backend == "rocksdb"


class CollectorOptions(View, frozen=True):
    """`spec.historyServerOptions.collectorOptions`."""

    image: str | None = None
    image_pull_policy: str | None = None
    resources: dict[str, Any] | None = None
    env: tuple[dict[str, Any], ...] = ()


class HistoryServerOptions(View, frozen=True):
    """`spec.historyServerOptions`."""

    collector_options: CollectorOptions | None = None


class IdleTerminationOptions(View, frozen=True):
    """`spec.idleTerminationOptions`.

    Attributes:
        timeout_seconds: seconds without use after which the cluster ends.
        policy: `Suspend` deletes its pods and keeps the object, `Delete` deletes the object,
            `ScaleToMinimum` sets `replicas` of each group to its `minReplicas`; not KubeRay's.
    """

    timeout_seconds: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
    policy: Literal["Suspend", "Delete", "ScaleToMinimum"] = "Suspend"


class DisruptionBudgets(View, frozen=True):
    """`spec.disruptionBudgets`: what evictions must leave while something runs; not KubeRay's.

    Attributes:
        workers_max_unavailable_percent: share of each group that may be evicted at a time; without
            it all workers may, except those of replicas with several hosts.
    """

    workers_max_unavailable_percent: Annotated[int, msgspec.Meta(ge=0, le=100)] | None = None


class GracefulTerminationOptions(View, frozen=True):
    """`spec.gracefulTerminationOptions`.

    Attributes:
        termination_grace_period_seconds: that of pods whose template has none.
        drain_deadline_seconds: how long a worker's hook waits for its work; the grace period if
            not given.
    """

    termination_grace_period_seconds: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)] | None = None
    drain_deadline_seconds: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)] | None = None


class TlsOptions(View, frozen=True):
    """`spec.tlsOptions`."""

    enabled: bool | None = None

    @property
    def wanted(self) -> bool:
        """True if mTLS is requested; without the field it is not, as in KubeRay."""
        return bool(self.enabled)


class HeadGroup(View, frozen=True):
    """`spec.headGroupSpec`."""

    template: Template
    head_service: dict[str, Any] | None = None
    enable_ingress: bool | None = None
    ingress_options: dict[str, Any] | None = None
    resources: dict[str, str] | None = None
    labels: dict[str, str] | None = None
    ray_start_params: dict[str, str] | None = None
    service_type: str = ""


class ScaleStrategy(View, frozen=True):
    """`spec.workerGroupSpecs[].scaleStrategy`."""

    workers_to_delete: tuple[str, ...] = ()


class WorkerGroup(View, frozen=True):
    """`spec.workerGroupSpecs[]`."""

    group_name: str
    template: Template
    suspend: bool | None = None
    replicas: int | None = None
    min_replicas: int | None = None
    max_replicas: int | None = None
    num_of_hosts: int | None = None
    priority: int | None = None
    idle_timeout_seconds: int | None = None
    resources: dict[str, str] | None = None
    labels: dict[str, str] | None = None
    ray_start_params: dict[str, str] | None = None
    scale_strategy: ScaleStrategy = ScaleStrategy()

    @property
    def hosts(self) -> int:
        """Pods of one replica; a number below one is read as one."""
        hosts = 1 if self.num_of_hosts is None else self.num_of_hosts
        return max(1, hosts)

    @property
    def least(self) -> int:
        """`minReplicas`, 0 if it is not set."""
        return self.min_replicas or 0

    @property
    def most(self) -> int:
        """`maxReplicas`, the largest int32 if it is not set."""
        return LARGEST_INT32 if self.max_replicas is None else self.max_replicas

    @property
    def desired_replicas(self) -> int:
        """`replicas`, clamped to the limits; 0 if the group is suspended."""
        if self.suspend:
            return 0
        least = self.least
        replicas = least if self.replicas is None else self.replicas
        return least if replicas < least else min(replicas, self.most)

    @property
    def desired_pods(self) -> int:
        """Pods of all replicas of this group."""
        return self.desired_replicas * self.hosts


class NetworkRules(View, frozen=True):
    """Own rules of a NetworkPolicy, as Kubernetes has them; they stay plain data."""

    ingress_rules: tuple[dict[str, Any], ...] = ()
    egress_rules: tuple[dict[str, Any], ...] = ()


class GroupNetworkRules(NetworkRules, frozen=True, kw_only=True):
    """`spec.networkPolicy.workerGroups[]`."""

    group_name: str


class NetworkPolicyOptions(View, frozen=True):
    """`spec.networkPolicy`."""

    mode: str = "DenyAll"
    head: NetworkRules = NetworkRules()
    worker: NetworkRules = NetworkRules()
    worker_groups: tuple[GroupNetworkRules, ...] = ()

    @property
    def denies_ingress(self) -> bool:
        """True if only admitted connections reach the pods."""
        return self.mode != "DenyAllEgress"

    @property
    def denies_egress(self) -> bool:
        """True if the pods reach only what they are admitted to."""
        return self.mode != "DenyAllIngress"

    def rules_of(self, group: str) -> tuple[str, NetworkRules]:
        """Return the rules of a worker group and their path; its own replace those of `worker`."""
        for position, rules in enumerate(self.worker_groups):
            if rules.group_name == group:
                return f"spec.networkPolicy.workerGroups[{position}]", rules
        return "spec.networkPolicy.worker", self.worker


class ClusterSpec(View, frozen=True):
    """`spec` of a RayCluster."""

    head_group_spec: HeadGroup
    worker_group_specs: tuple[WorkerGroup, ...] = ()
    ray_version: str = ""
    suspend: bool | None = None
    idle_suspend: bool | None = None
    idle_termination_options: IdleTerminationOptions | None = None
    disruption_budgets: DisruptionBudgets | None = None
    graceful_termination_options: GracefulTerminationOptions | None = None
    managed_by: str | None = None
    enable_in_tree_autoscaling: bool | None = None
    autoscaler_options: AutoscalerOptions | None = None
    upgrade_strategy: RayClusterUpgradeStrategy = RayClusterUpgradeStrategy()
    auth_options: AuthOptions | None = None
    head_service_annotations: dict[str, str] | None = None
    gcs_fault_tolerance_options: GcsFaultToleranceOptions | None = None
    history_server_options: HistoryServerOptions | None = None
    network_policy: NetworkPolicyOptions | None = None
    tls_options: TlsOptions | None = None

    @property
    def has_mtls(self) -> bool:
        """True if Ray's processes prove to each other who they are, by certificates."""
        return self.tls_options is not None and self.tls_options.wanted

    @property
    def autoscaling(self) -> bool:
        """True if Ray's autoscaler decides on replicas."""
        return bool(self.enable_in_tree_autoscaling)

    @property
    def autoscaler_version(self) -> str:
        """`v1`, `v2`, or empty if Ray chooses."""
        options = self.autoscaler_options
        return (options.version or "") if self.autoscaling and options else ""

    def surge_of(self, desired: int) -> int:
        """Return how many units a group may have beyond its number while some are taken away."""
        rolling = self.upgrade_strategy.rolling
        if rolling is not None:
            return rolling.surge_of(desired)
        return int(self.graceful_termination_options is not None)

    @property
    def desired_workers(self) -> int:
        """Worker pods of all groups."""
        return sum(group.desired_pods for group in self.worker_group_specs)


def parse_spec(cluster: RayCluster) -> ClusterSpec:
    """Return the typed specification without nulls. It copies the data: parse each object once.

    Raises:
        msgspec.ValidationError: a field has the wrong type or is missing.
    """
    return parse(cluster.spec, ClusterSpec)


# The authentication token of requests to Ray, and the Secret that holds it.

TOKEN_KEY: Final = "auth_token"  # noqa: S105 - a key, not a token
"""Key of the token in the Secret; Ray and its clients expect it."""


def token_secret_name(cluster_name: str, auth: AuthOptions) -> str:
    """Return the name of the Secret with the token: the user's, or the one Manta creates."""
    return auth.secret_name or checked_name(cluster_name)


def needs_token_secret(auth: AuthOptions | None) -> bool:
    """Return whether a Secret with a new token must be created for the cluster."""
    return auth is not None and auth.by_token and not auth.by_kubernetes and not auth.secret_name


def new_token() -> str:
    """Return 32 random bytes in base64."""
    return base64.b64encode(secrets.token_bytes(32)).decode()
