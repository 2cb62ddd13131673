"""An administrator's settings of the Ray kinds: KubeRay's switches, under its names."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import controller
from controller.ray.api.feature_gates import FeatureGates
from controller.ray.api.names import read_cluster_domain
from controller.ray.api.raycluster import new_token
from controller.ray.api.rayservice import UpgradeType

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from controller.ray.api.batch_schedulers import BatchScheduler


CERT_MANAGER: Final = "cert-manager"
MANTA: Final = "manta"
MTLS_ISSUERS: Final = (CERT_MANAGER, MANTA)
"""Who may issue the certificates of clusters with mTLS, as `--mtls-issuer` has them."""


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Settings of the RayCluster controller.

    Attributes:
        version: value of the annotation `ray.io/kuberay-version` on created objects.
        cluster_domain: DNS domain of the cluster, `cluster.local`.
        init_container: whether workers wait for the head in an init container.
        probes: whether probes are added to Ray containers that have none.
        head_cluster_ip_service: whether the head service gets a cluster IP by default.
        login_shell: whether a login shell starts Ray.
        delete_unnamed: whether surplus workers are deleted without the autoscaler naming them.
        head_sidecars: containers added to every head pod.
        worker_sidecars: containers added to every worker pod.
        container_env: variables added to Ray containers that do not have them.
        pod_labels: labels added to pods that do not have them.
        pod_annotations: annotations added to pods that do not have them.
        feature_gates: the enabled features.
        mtls_issuer: who issues certificates of clusters with mTLS: `cert-manager` or `manta`.
        batch_scheduler: schedules all pods; None for the schedulers that their templates name.
        watch_nodes: whether pods on nodes that are about to go are drained before their eviction.
        redis_cleanup: whether state in Redis is removed when its cluster is deleted.
        use_ingress_on_openshift: whether to create an Ingress where Routes exist.
        new_token: creates the token of a cluster, a text that cannot be guessed.
        batch: maximum pods created by one plan; the runtime executes 64 and plans again.
    """

    version: str = f"manta-{controller.__version__}"
    cluster_domain: str = "cluster.local"
    init_container: bool = True
    probes: bool = True
    head_cluster_ip_service: bool = False
    login_shell: bool = False
    delete_unnamed: bool = False
    head_sidecars: tuple[Mapping[str, Any], ...] = ()
    worker_sidecars: tuple[Mapping[str, Any], ...] = ()
    container_env: tuple[Mapping[str, Any], ...] = ()
    pod_labels: Mapping[str, str] = field(default_factory=dict[str, str])
    pod_annotations: Mapping[str, str] = field(default_factory=dict[str, str])
    feature_gates: FeatureGates = field(default_factory=FeatureGates)
    mtls_issuer: str = CERT_MANAGER
    batch_scheduler: BatchScheduler | None = None
    watch_nodes: bool = False
    redis_cleanup: bool = True
    use_ingress_on_openshift: bool = False
    new_token: Callable[[], str] = new_token
    batch: int = 128

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> ClusterSettings:
        """Read KubeRay's environment variables."""

        def is_set_to(name: str, value: str) -> bool:
            return environment.get(name, "").lower() == value

        return cls(
            cluster_domain=read_cluster_domain(environment),
            init_container=not is_set_to("ENABLE_INIT_CONTAINER_INJECTION", "false"),
            probes=not is_set_to("ENABLE_PROBES_INJECTION", "false"),
            head_cluster_ip_service=is_set_to("ENABLE_RAY_HEAD_CLUSTER_IP_SERVICE", "true"),
            login_shell=is_set_to("ENABLE_LOGIN_SHELL", "true"),
            delete_unnamed=is_set_to("ENABLE_RANDOM_POD_DELETE", "true"),
            use_ingress_on_openshift=is_set_to("USE_INGRESS_ON_OPENSHIFT", "true"),
            watch_nodes=is_set_to("WATCH_NODES", "true"),
            redis_cleanup=not is_set_to("ENABLE_GCS_FT_REDIS_CLEANUP", "false"),
        )


_FIVE_MINUTES: Final = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class JobSettings:
    """Settings of the RayJob controller.

    Attributes:
        status_check_timeout: time for which the dashboard may be unreachable before the job fails.
        transition_grace_period: time after the end of the Ray job for which the RayJob may stay
            `Running`.
        delete_finished_jobs: whether `shutdownAfterJobFinishes` deletes the RayJob itself instead
            of its cluster.
        login_shell: whether a login shell runs the submitter's script.
        cluster_domain: DNS domain of the cluster, `cluster.local`.
        head_cluster_ip_service: whether the job's head service gets a cluster IP by default.
        feature_gates: the enabled features.
        batch_scheduler: schedules all pods; None for the schedulers that their templates name.
    """

    status_check_timeout: timedelta = _FIVE_MINUTES
    transition_grace_period: timedelta = _FIVE_MINUTES
    delete_finished_jobs: bool = False
    login_shell: bool = False
    cluster_domain: str = "cluster.local"
    head_cluster_ip_service: bool = False
    feature_gates: FeatureGates = field(default_factory=FeatureGates)
    batch_scheduler: BatchScheduler | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> JobSettings:
        """Read KubeRay's environment variables; invalid numbers count as absent."""

        def is_true(name: str) -> bool:
            return environment.get(name, "").lower() == "true"

        return cls(
            status_check_timeout=_seconds(environment.get("RAYJOB_STATUS_CHECK_TIMEOUT_SECONDS")),
            transition_grace_period=_seconds(
                environment.get("RAYJOB_DEPLOYMENT_STATUS_TRANSITION_GRACE_PERIOD_SECONDS")
            ),
            delete_finished_jobs=is_true("DELETE_RAYJOB_CR_AFTER_JOB_FINISHES"),
            login_shell=is_true("ENABLE_LOGIN_SHELL"),
            cluster_domain=read_cluster_domain(environment),
            head_cluster_ip_service=is_true("ENABLE_RAY_HEAD_CLUSTER_IP_SERVICE"),
        )


def _seconds(text: str | None) -> timedelta:
    """Read a positive number of seconds of at most nine digits; five minutes for other texts."""
    number = text.strip() if text else ""
    if not number.isascii() or not number.isdigit() or len(number) > 9 or not int(number):
        return _FIVE_MINUTES
    return timedelta(seconds=int(number))


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """Settings of the RayService controller.

    Attributes:
        version: value of the annotation `ray.io/kuberay-version` on clusters that are created.
        default_upgrade: the reaction to a new specification if the RayService sets none.
        cluster_domain: DNS domain of the cluster, `cluster.local`.
        probes: whether pods get readiness probes, so that the kubelet asks the proxies of workers.
        head_cluster_ip_service: whether head services get a cluster IP by default.
        feature_gates: the enabled features.
    """

    version: str = f"manta-{controller.__version__}"
    default_upgrade: UpgradeType = UpgradeType.NEW_CLUSTER
    cluster_domain: str = "cluster.local"
    probes: bool = True
    head_cluster_ip_service: bool = False
    feature_gates: FeatureGates = field(default_factory=FeatureGates)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> ServiceSettings:
        """Read KubeRay's environment variables."""
        keeps = environment.get("ENABLE_ZERO_DOWNTIME", "").lower() == "false"
        probes = environment.get("ENABLE_PROBES_INJECTION", "").lower() != "false"
        by_ip = environment.get("ENABLE_RAY_HEAD_CLUSTER_IP_SERVICE", "").lower() == "true"
        return cls(
            default_upgrade=UpgradeType.NONE if keeps else UpgradeType.NEW_CLUSTER,
            cluster_domain=read_cluster_domain(environment),
            probes=probes,
            head_cluster_ip_service=by_ip,
        )
