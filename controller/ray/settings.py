"""An administrator's settings of all Ray kinds under KubeRay's names, and the operator's rights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, timedelta, tzinfo
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec import Struct, field

import controller
from controller.kube.resources import Resource
from controller.ray.api.batch_schedulers import BatchScheduler
from controller.ray.api.feature_gates import FeatureGates
from controller.ray.api.raycluster import new_token
from controller.ray.api.rayservice import UpgradeType

CERT_MANAGER: Final = "cert-manager"
MANTA: Final = "manta"
MTLS_ISSUERS: Final = (CERT_MANAGER, MANTA)
"""Who may issue the certificates of clusters with mTLS, as `--mtls-issuer` has them."""


_FIVE_MINUTES: Final = timedelta(minutes=5)
_LOCALTIME: Final = Path("/etc/localtime")


class RaySettings(Struct, frozen=True):
    """Settings of the controllers of the Ray kinds.

    Attributes:
        version: value of the annotation `ray.io/kuberay-version` on created objects.
        cluster_domain: DNS domain of the cluster, `cluster.local`.
        feature_gates: the enabled features.
        batch_scheduler: schedules all pods; None for the schedulers that their templates name.
        head_cluster_ip_service: whether head services get a cluster IP by default.
        login_shell: whether a login shell starts Ray, and runs the script of submitters.
        probes: whether probes are added to Ray containers that have none. Without them nobody but
            the operator asks the proxies of a RayService's workers.
        init_container: whether workers wait for the head in an init container.
        delete_unnamed: whether surplus workers are deleted without the autoscaler naming them.
        head_sidecars: containers added to every head pod.
        worker_sidecars: containers added to every worker pod.
        container_env: variables added to Ray containers that do not have them.
        pod_labels: labels added to pods that do not have them.
        pod_annotations: annotations added to pods that do not have them.
        mtls_issuer: who issues certificates of clusters with mTLS: `cert-manager` or `manta`.
        watch_nodes: whether pods on nodes that are about to go are drained before their eviction.
        redis_cleanup: whether state in Redis is removed when its cluster is deleted.
        use_ingress_on_openshift: whether to create an Ingress where Routes exist.
        new_token: creates the token of a cluster, a text that cannot be guessed.
        batch: maximum pods created by one plan; the runtime executes 64 and plans again.
        status_check_timeout: time for which the dashboard may be unreachable before a job fails.
        transition_grace_period: time after the end of the Ray job for which a RayJob may stay
            `Running`.
        delete_finished_jobs: whether `shutdownAfterJobFinishes` deletes the RayJob itself instead
            of its cluster.
        default_upgrade: the reaction to a new specification if the RayService sets none.
        local_zone: time zone of the schedules of RayCronJobs without one.
    """

    version: str = f"manta-{controller.__version__}"
    cluster_domain: str = "cluster.local"
    feature_gates: FeatureGates = field(default_factory=FeatureGates)
    batch_scheduler: BatchScheduler | None = None
    head_cluster_ip_service: bool = False
    login_shell: bool = False
    probes: bool = True
    init_container: bool = True
    delete_unnamed: bool = False
    head_sidecars: tuple[Mapping[str, Any], ...] = ()
    worker_sidecars: tuple[Mapping[str, Any], ...] = ()
    container_env: tuple[Mapping[str, Any], ...] = ()
    pod_labels: Mapping[str, str] = field(default_factory=dict[str, str])
    pod_annotations: Mapping[str, str] = field(default_factory=dict[str, str])
    mtls_issuer: str = CERT_MANAGER
    watch_nodes: bool = False
    redis_cleanup: bool = True
    use_ingress_on_openshift: bool = False
    new_token: Callable[[], str] = new_token
    batch: int = 128
    status_check_timeout: timedelta = _FIVE_MINUTES
    transition_grace_period: timedelta = _FIVE_MINUTES
    delete_finished_jobs: bool = False
    default_upgrade: UpgradeType = UpgradeType.NEW_CLUSTER
    local_zone: tzinfo = UTC

    @classmethod
    def from_environment(
        cls, environment: Mapping[str, str], localtime: Path = _LOCALTIME
    ) -> RaySettings:
        """Read KubeRay's environment variables; invalid numbers count as absent."""

        def is_set_to(name: str, value: str) -> bool:
            return environment.get(name, "").lower() == value

        keeps = is_set_to("ENABLE_ZERO_DOWNTIME", "false")
        return cls(
            cluster_domain=read_cluster_domain(environment),
            head_cluster_ip_service=is_set_to("ENABLE_RAY_HEAD_CLUSTER_IP_SERVICE", "true"),
            login_shell=is_set_to("ENABLE_LOGIN_SHELL", "true"),
            probes=not is_set_to("ENABLE_PROBES_INJECTION", "false"),
            init_container=not is_set_to("ENABLE_INIT_CONTAINER_INJECTION", "false"),
            delete_unnamed=is_set_to("ENABLE_RANDOM_POD_DELETE", "true"),
            use_ingress_on_openshift=is_set_to("USE_INGRESS_ON_OPENSHIFT", "true"),
            watch_nodes=is_set_to("WATCH_NODES", "true"),
            redis_cleanup=not is_set_to("ENABLE_GCS_FT_REDIS_CLEANUP", "false"),
            status_check_timeout=_seconds(environment.get("RAYJOB_STATUS_CHECK_TIMEOUT_SECONDS")),
            transition_grace_period=_seconds(
                environment.get("RAYJOB_DEPLOYMENT_STATUS_TRANSITION_GRACE_PERIOD_SECONDS")
            ),
            delete_finished_jobs=is_set_to("DELETE_RAYJOB_CR_AFTER_JOB_FINISHES", "true"),
            default_upgrade=UpgradeType.NONE if keeps else UpgradeType.NEW_CLUSTER,
            local_zone=_local_zone(environment.get("TZ"), localtime),
        )


def read_cluster_domain(environment: Mapping[str, str]) -> str:
    """Return the DNS domain of the Kubernetes cluster, without the dots that may enclose it."""
    return environment.get("CLUSTER_DOMAIN", "").strip(".") or "cluster.local"


def _seconds(text: str | None) -> timedelta:
    """Read a positive number of seconds of at most nine digits; five minutes for other texts."""
    number = text.strip() if text else ""
    if not number.isascii() or not number.isdigit() or len(number) > 9 or not int(number):
        return _FIVE_MINUTES
    return timedelta(seconds=int(number))


def _local_zone(name: str | None, localtime: Path) -> tzinfo:
    """Find the zone as Go programs such as KubeRay do: `TZ`, else this file, else UTC."""
    try:
        if name is None:
            with localtime.open("rb") as data:
                return ZoneInfo.from_file(data, key=str(localtime))
        name = name.removeprefix(":")
        return ZoneInfo(name) if name else UTC
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC


# The operator's rights on the API server: KubeRay's ClusterRole, as data.
#
# Plans must stay within it, because Manta has to run under the RBAC objects of KubeRay's chart.
# Tests compare plans, and the chart's own role, with this table.

_ALL: Final = frozenset({"create", "delete", "get", "list", "patch", "update", "watch"})
_WITHOUT_PATCH: Final = _ALL - {"patch"}
_MADE_ONCE: Final = _WITHOUT_PATCH - {"update"}
_READ: Final = frozenset({"get", "list", "watch"})
_CHANGE: Final = frozenset({"get", "patch", "update"})

PERMISSIONS: Final[Mapping[str, frozenset[str]]] = {
    "pods": _ALL | {"deletecollection"},
    "pods/status": _ALL,
    "pods/proxy": _CHANGE,
    "pods/resize": frozenset({"patch"}),
    "services": _ALL,
    "services/status": _CHANGE,
    "services/proxy": _CHANGE | {"create"},
    "persistentvolumeclaims": _ALL,
    "secrets": _WITHOUT_PATCH,
    "serviceaccounts": _MADE_ONCE,
    "jobs.batch": _ALL,
    "leases.coordination.k8s.io": frozenset({"create", "get", "list", "update"}),
    "endpointslices.discovery.k8s.io": _READ,
    "events.events.k8s.io": frozenset({"create", "patch"}),
    "ingresses.networking.k8s.io": _ALL,
    "ingressclasses.networking.k8s.io": _READ,
    "networkpolicies.networking.k8s.io": _WITHOUT_PATCH,
    "gateways.gateway.networking.k8s.io": _WITHOUT_PATCH,
    "httproutes.gateway.networking.k8s.io": _WITHOUT_PATCH,
    "roles.rbac.authorization.k8s.io": _WITHOUT_PATCH,
    "rolebindings.rbac.authorization.k8s.io": _MADE_ONCE,
    "routes.route.openshift.io": _ALL,
} | {
    f"{plural}{part}.ray.io": verbs
    for plural in ("rayclusters", "rayjobs", "rayservices", "raycronjobs")
    for part, verbs in (
        ("", _ALL),
        ("/status", _CHANGE),
        ("/finalizers", frozenset({"update"})),
    )
}
"""Verbs by resource, written `plural/subresource.group`."""

OF_SCHEDULERS: Final[Mapping[str, frozenset[str]]] = {
    "podgroups.scheduling.volcano.sh": _WITHOUT_PATCH,
    "podgroups.scheduling.x-k8s.io": _MADE_ONCE,
    "podgroups.scheduling.k8s.io": _ALL,
    "workloads.scheduling.k8s.io": _ALL,
}
"""Rights that a chart grants only while the batch scheduler is chosen. KubeRay's may not delete
those of scheduler-plugins: there a PodGroup stays when its cluster is no longer to be a gang."""

OF_CERTIFICATES: Final[Mapping[str, frozenset[str]]] = {
    "issuers.cert-manager.io": _MADE_ONCE,
    "certificates.cert-manager.io": _WITHOUT_PATCH,
}
"""Rights that a chart grants only with the feature gate of mTLS. KubeRay's may not delete: there
issuers and certificates stay until the cluster is deleted, after its `tlsOptions` was removed."""

ADDITIONS: Final[Mapping[str, frozenset[str]]] = {
    "pods/log": frozenset({"get"}),
    "events.events.k8s.io": frozenset({"list"}),
    "controllerrevisions.apps": _WITHOUT_PATCH,
    "poddisruptionbudgets.policy": _READ | {"create", "patch", "delete"},
    "rayclusterfleets.manta.dev": _READ | {"patch"},
    "rayclusterfleets/status.manta.dev": frozenset({"patch"}),
    "rayclusterfleets/finalizers.manta.dev": frozenset({"update"}),
}
"""Rights that Manta's own chart grants beyond that. No kind of KubeRay's depends on them: without
`pods/log` a failed submitter's last words are missing, and the status says so, and the error of a
head that crashes, unless it is left for the kubelet; without `controllerrevisions` a rolling update
has no history to undo it by, without `poddisruptionbudgets` a condition says that
`spec.disruptionBudgets` has no effect, and without the list of events a second Manta outside the
cluster is not noticed, and a status says that it cannot tell why a Job has no pod."""


def granted(resource: Resource[Any], subresource: str = "") -> frozenset[str]:
    """Return the verbs on a resource; none if it is not in the table."""
    plural = f"{resource.plural}/{subresource}" if subresource else resource.plural
    name = f"{plural}.{resource.group}" if resource.group else plural
    tables = (PERMISSIONS, OF_SCHEDULERS, OF_CERTIFICATES, ADDITIONS)
    return frozenset[str]().union(*(table.get(name, frozenset()) for table in tables))
