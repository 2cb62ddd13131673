"""Settings of the RayService controller, read from KubeRay's environment variables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import controller
from controller.ray.api.feature_gates import FeatureGates
from controller.ray.api.names import read_cluster_domain
from controller.ray.api.rayservice import UpgradeType

if TYPE_CHECKING:
    from collections.abc import Mapping


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
