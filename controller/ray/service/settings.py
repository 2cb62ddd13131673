"""Settings of the RayService controller, read from KubeRay's environment variables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import controller
from controller.ray.api.feature_gates import FeatureGates
from controller.ray.api.names import read_cluster_domain
from controller.ray.api.rayservice import UpgradeType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.kube.objects import ObjectMeta


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


# Names of the objects that a RayService creates, in KubeRay's forms.

_SERVE_SERVICE: Final = "-serve-svc"


def serve_service_name(service: ObjectMeta) -> str:
    """Return the name of the stable service of the applications; the user may choose it."""
    return f"{service.name}{_SERVE_SERVICE}"


def cluster_serve_service_name(cluster: str) -> str:
    """Return the name of the service of one cluster's applications, for routes."""
    return f"{cluster}{_SERVE_SERVICE}"


def cluster_behind(service: str) -> str:
    """Return the cluster whose service has this name; inverts `cluster_serve_service_name`."""
    return service.removesuffix(_SERVE_SERVICE)


def gateway_name(service: ObjectMeta) -> str:
    """Return the name of the Gateway that divides requests in an incremental upgrade."""
    return f"{service.name}-gateway"


def route_name(service: ObjectMeta) -> str:
    """Return the name of its HTTPRoute."""
    return f"{service.name}-httproute"


# Types of the conditions of a RayService, KubeRay's.

UPGRADE_IN_PROGRESS: Final = "UpgradeInProgress"
ROLLBACK_IN_PROGRESS: Final = "RollbackInProgress"
SUSPENDING: Final = "Suspending"
SUSPENDED: Final = "Suspended"
