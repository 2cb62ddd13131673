"""Pod specifications for the process kubelet: all fields that determine its processes.

The caches of the node components hold less of a pod (`nodes.pods`); the kubelet reads the whole
pod once, when it starts it. The API server has checked it and filled in the defaults; variables and
volumes stay plain data.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from controller.kube.objects import KubeObject, View
from controller.kube.resources import Resource
from devcluster.nodes.pods import (
    KubeletContainer,
    KubeletPod,
    KubeletPodSpec,
    RequestedResources,
)

Json: TypeAlias = dict[str, Any]


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
    env_from: tuple[Json, ...] = ()
    env: tuple[Json, ...] = ()
    resources: Resources = Resources()
    volume_mounts: tuple[Json, ...] = ()
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


class PodSpecification(KubeletPodSpec, frozen=True):
    """`spec`."""

    hostname: str = ""
    subdomain: str = ""
    service_account_name: str = "default"
    automount_service_account_token: bool | None = None
    active_deadline_seconds: float | None = None
    termination_grace_period_seconds: float = 30
    volumes: tuple[Json, ...] = ()
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
