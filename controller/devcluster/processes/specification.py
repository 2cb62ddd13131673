"""Pod specifications for the process kubelet: all fields that determine its processes.

The caches of the node components hold less of a pod (`nodes.pods`); the kubelet reads the whole
pod once, when it starts it. The API server has filled in the defaults.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from controller.devcluster.nodes.pods import (
    KubeletContainer,
    KubeletPod,
    KubeletPodSpec,
    RequestedResources,
)
from controller.kube.objects import KubeObject, View
from controller.kube.resources import Resource


class ObjectKey(View, frozen=True):
    """A key of a config map or secret."""

    name: str = ""
    key: str = ""
    optional: bool = False


class FieldReference(View, frozen=True):
    """`fieldRef`: a field of the pod."""

    field_path: str = ""


class ResourceReference(View, frozen=True):
    """`resourceFieldRef`: a request or limit of a container, in units of `divisor`."""

    container_name: str = ""
    resource: str = ""
    divisor: str | float = "1"


class EnvSource(View, frozen=True):
    """`env[].valueFrom`: one member is set."""

    field_ref: FieldReference | None = None
    resource_field_ref: ResourceReference | None = None
    config_map_key_ref: ObjectKey | None = None
    secret_key_ref: ObjectKey | None = None


class EnvVar(View, frozen=True):
    """`env[]`."""

    name: str = ""
    value: str = ""
    value_from: EnvSource | None = None


class Named(View, frozen=True):
    """A reference to a whole config map or secret of the pod's namespace."""

    name: str = ""
    optional: bool = False


class EnvFrom(View, frozen=True):
    """`envFrom[]`."""

    prefix: str = ""
    config_map_ref: Named | None = None
    secret_ref: Named | None = None


class VolumeMount(View, frozen=True):
    """`volumeMounts[]`."""

    name: str = ""
    mount_path: str = ""
    read_only: bool = False
    sub_path: str = ""
    sub_path_expr: str = ""


class ExecAction(View, frozen=True):
    """`exec` of a probe or hook."""

    command: tuple[str, ...] = ()


class Header(View, frozen=True):
    """`httpGet.httpHeaders[]`."""

    name: str = ""
    value: str = ""


class HttpAction(View, frozen=True):
    """`httpGet` of a probe or hook."""

    port: int | str = 0
    path: str = "/"
    host: str = ""
    scheme: Literal["HTTP", "HTTPS"] = "HTTP"
    http_headers: tuple[Header, ...] = ()


class TcpAction(View, frozen=True):
    """`tcpSocket` of a probe or hook."""

    port: int | str = 0
    host: str = ""


class SleepAction(View, frozen=True):
    """`sleep` of a hook."""

    seconds: float = 0


class Action(View, frozen=True):
    """The action of a probe or a hook: one member is set."""

    exec: ExecAction | None = None
    http_get: HttpAction | None = None
    tcp_socket: TcpAction | None = None
    grpc: dict[str, Any] | None = None
    sleep: SleepAction | None = None


class ProbeSpecification(Action, frozen=True):
    """`startupProbe`, `readinessProbe` and `livenessProbe`. Times are in seconds."""

    initial_delay_seconds: float = 0
    period_seconds: float = 10
    timeout_seconds: float = 1
    success_threshold: int = 1
    failure_threshold: int = 3
    termination_grace_period_seconds: float | None = None


class Lifecycle(View, frozen=True):
    """`lifecycle`."""

    post_start: Action | None = None
    pre_stop: Action | None = None


class Resources(RequestedResources, frozen=True):
    """`resources`."""

    requests: dict[str, str | float] = msgspec.field(default_factory=dict[str, str | float])
    limits: dict[str, str | float] = msgspec.field(default_factory=dict[str, str | float])


class ContainerSpecification(KubeletContainer, frozen=True):
    """`containers[]` and `initContainers[]`."""

    image_pull_policy: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    env_from: tuple[EnvFrom, ...] = ()
    env: tuple[EnvVar, ...] = ()
    resources: Resources = Resources()
    volume_mounts: tuple[VolumeMount, ...] = ()
    startup_probe: ProbeSpecification | None = None
    readiness_probe: ProbeSpecification | None = None
    liveness_probe: ProbeSpecification | None = None
    lifecycle: Lifecycle = Lifecycle()
    termination_message_path: str = "/dev/termination-log"
    termination_message_policy: str = "File"

    def port(self, wanted: int | str) -> int | None:
        """Return the number of a port given by number or name; None if there is none."""
        if isinstance(wanted, str) and not wanted.isdecimal():
            return next((p.container_port for p in self.ports if p.name == wanted), None)
        return int(wanted)


class KeyToPath(View, frozen=True):
    """`items[]` of a volume made of keys."""

    key: str = ""
    path: str = ""
    mode: int | None = None


class ObjectSource(View, frozen=True):
    """`configMap` or `secret` of a volume or projection; volumes name secrets by `secretName`."""

    name: str = ""
    secret_name: str = ""
    items: tuple[KeyToPath, ...] = ()
    default_mode: int | None = None
    optional: bool = False


class DownwardFile(View, frozen=True):
    """`items[]` of a downward API volume."""

    path: str = ""
    field_ref: FieldReference | None = None
    resource_field_ref: ResourceReference | None = None
    mode: int | None = None


class DownwardSource(View, frozen=True):
    """`downwardAPI` of a volume or projection."""

    items: tuple[DownwardFile, ...] = ()
    default_mode: int | None = None


class TokenSource(View, frozen=True):
    """`serviceAccountToken` of a projection."""

    path: str = "token"
    audience: str = ""


class TrustBundleSource(View, frozen=True):
    """`clusterTrustBundle` of a projection: the API server's authority, whatever it names."""

    path: str = ""


class Projection(View, frozen=True):
    """`projected.sources[]`: one member is set."""

    config_map: ObjectSource | None = None
    secret: ObjectSource | None = None
    downward_api: DownwardSource | None = msgspec.field(default=None, name="downwardAPI")
    service_account_token: TokenSource | None = None
    cluster_trust_bundle: TrustBundleSource | None = None


class ProjectedSource(View, frozen=True):
    """`projected` of a volume."""

    sources: tuple[Projection, ...] = ()
    default_mode: int | None = None


class EmptyDirectory(View, frozen=True):
    """`emptyDir` of a volume."""

    medium: str = ""


class HostPath(View, frozen=True):
    """`hostPath` of a volume."""

    path: str = ""
    type: str = ""


class ClaimSource(View, frozen=True):
    """`persistentVolumeClaim` of a volume."""

    claim_name: str = ""
    read_only: bool = False


class Volume(View, frozen=True):
    """`volumes[]`: one member besides the name is set; others than these are not supported."""

    name: str = ""
    empty_dir: EmptyDirectory | None = None
    config_map: ObjectSource | None = None
    secret: ObjectSource | None = None
    downward_api: DownwardSource | None = msgspec.field(default=None, name="downwardAPI")
    projected: ProjectedSource | None = None
    host_path: HostPath | None = None
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: dict[str, Any] | None = None


class PodSpecification(KubeletPodSpec, frozen=True):
    """`spec`."""

    hostname: str = ""
    subdomain: str = ""
    service_account_name: str = "default"
    automount_service_account_token: bool | None = None
    active_deadline_seconds: float | None = None
    termination_grace_period_seconds: float = 30
    volumes: tuple[Volume, ...] = ()
    init_containers: tuple[ContainerSpecification, ...] = ()
    containers: tuple[ContainerSpecification, ...] = ()

    @property
    def all_containers(self) -> tuple[ContainerSpecification, ...]:
        """All containers in the order in which they start."""
        return self.init_containers + self.containers


class SpecifiedPod(KubeletPod, frozen=True):
    """A Pod."""

    spec: PodSpecification = PodSpecification()


SPECIFIED_PODS = Resource("", "v1", "pods", "Pod", SpecifiedPod)


class ConfigMapData(KubeObject, frozen=True):
    """A ConfigMap; `binaryData` is base64."""

    data: dict[str, str] | None = None
    binary_data: dict[str, bytes] | None = None


class Secret(KubeObject, frozen=True):
    """A Secret. Read when a container or volume needs it, and not kept."""

    data: dict[str, bytes] | None = None


CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", ConfigMapData)
SECRETS = Resource("", "v1", "secrets", "Secret", Secret)
