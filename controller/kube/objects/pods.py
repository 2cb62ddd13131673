"""Pods, their containers and their states."""

from __future__ import annotations

from typing import Any

import msgspec

from controller.kube.objects.metadata import Condition, KubeObject, View


class ContainerPort(View, frozen=True):
    """`spec.containers[].ports[]`."""

    name: str = ""
    container_port: int = 0
    protocol: str = "TCP"


class ContainerResources(View, frozen=True):
    """`spec.containers[].resources`."""

    limits: dict[str, Any] | None = None


class ContainerVariable(View, frozen=True):
    """`spec.containers[].env[]` without its value, which may be a secret."""

    name: str = ""


class Container(View, frozen=True):
    """`spec.containers[]`: what probes, services, upgrades and the kubelet need."""

    name: str = ""
    image: str = ""
    env: tuple[ContainerVariable, ...] = ()
    ports: tuple[ContainerPort, ...] = ()
    resources: ContainerResources = ContainerResources()


class PodSpec(View, frozen=True):
    """`spec` of a Pod."""

    node_name: str = ""
    service_account_name: str = ""
    restart_policy: str = "Always"
    init_containers: tuple[Container, ...] = ()
    containers: tuple[Container, ...] = ()
    termination_grace_period_seconds: int | None = None

    @property
    def all_containers(self) -> tuple[Container, ...]:
        """Init containers and containers."""
        return self.init_containers + self.containers


class ContainerStateTerminated(View, frozen=True):
    """`state.terminated`."""

    exit_code: int = 0
    reason: str = ""
    message: str = ""
    finished_at: str | None = None


class ContainerStateWaiting(View, frozen=True):
    """`state.waiting`."""

    reason: str = ""
    message: str = ""


class ContainerStateRunning(View, frozen=True):
    """`state.running`."""

    started_at: str | None = None


class ContainerState(View, frozen=True):
    """`status.containerStatuses[].state`: at most one member is set."""

    running: ContainerStateRunning | None = None
    waiting: ContainerStateWaiting | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(View, frozen=True):
    """`status.containerStatuses[]`."""

    name: str = ""
    ready: bool = False
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodStatus(View, frozen=True):
    """`status` of a Pod."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    host_ip: str = msgspec.field(default="", name="hostIP")
    start_time: str | None = None
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(KubeObject, frozen=True):
    """A Pod."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
