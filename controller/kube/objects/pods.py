"""Pods, and the workloads of which they are made."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from controller.kube.objects.metadata import Condition, KubeObject, View

# Pods, their containers and their states.

RAY_PORT: Final = "RAY_PORT"
"""The variable whose value is kept: the port of the GCS that the pod was created for."""


class ContainerPort(View, frozen=True):
    """`spec.containers[].ports[]`."""

    name: str = ""
    container_port: int = 0
    protocol: str = "TCP"


class ContainerResources(View, frozen=True):
    """`spec.containers[].resources`."""

    limits: dict[str, Any] | None = None


class ContainerVariable(View, frozen=True):
    """`spec.containers[].env[]`; `Container` empties the value."""

    name: str = ""
    value: str = ""


class Container(View, frozen=True):
    """`spec.containers[]`: what probes, services, upgrades and the kubelet need.

    Variables have no value but that of `RAY_PORT`: others may be secrets.
    """

    name: str = ""
    image: str = ""
    env: tuple[ContainerVariable, ...] = ()
    ports: tuple[ContainerPort, ...] = ()
    resources: ContainerResources = ContainerResources()

    def __post_init__(self) -> None:  # noqa: D105
        for entry in self.env:
            if entry.value and not (entry.name == RAY_PORT and entry.value.isdecimal()):
                msgspec.structs.force_setattr(entry, "value", "")


class Toleration(View, frozen=True):
    """`spec.tolerations[]`."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class PodSpec(View, frozen=True):
    """`spec` of a Pod."""

    node_name: str = ""
    service_account_name: str = ""
    restart_policy: str = "Always"
    tolerations: tuple[Toleration, ...] = ()
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


# Jobs, StatefulSets and their revisions.


class ControllerRevision(KubeObject, frozen=True):
    """A ControllerRevision without its data, which may be as large as the object it belongs to."""

    revision: int = 0


class BatchJobSpec(View, frozen=True):
    """`spec` of a Job. The template stays plain data, because it is copied into pods."""

    parallelism: int | None = None
    completions: int | None = None
    backoff_limit: int | None = None
    active_deadline_seconds: int | None = None
    suspend: bool | None = None
    selector: dict[str, Any] | None = None
    template: dict[str, Any] | None = None


class BatchJobStatus(View, frozen=True):
    """`status` of a Job."""

    active: int = 0
    ready: int | None = None
    succeeded: int = 0
    failed: int = 0
    start_time: str | None = None
    completion_time: str | None = None
    conditions: tuple[Condition, ...] = ()


class Job(KubeObject, frozen=True):
    """A Job."""

    spec: BatchJobSpec = BatchJobSpec()
    status: BatchJobStatus = BatchJobStatus()


class ProbeCommand(View, frozen=True):
    """`exec` of a probe."""

    command: tuple[str, ...] = ()


class ContainerProbe(View, frozen=True):
    """A probe, as far as it runs a command."""

    exec: ProbeCommand | None = None


class ServerContainer(View, frozen=True):
    """`spec.template.spec.containers[]` of a StatefulSet: what an update of the server needs."""

    name: str = ""
    image: str = ""
    command: tuple[str, ...] = ()
    startup_probe: ContainerProbe | None = None


class ServerPodSpec(View, frozen=True):
    """`spec.template.spec` of a StatefulSet."""

    containers: tuple[ServerContainer, ...] = ()


class ServerTemplate(View, frozen=True):
    """`spec.template` of a StatefulSet."""

    spec: ServerPodSpec = ServerPodSpec()


class StatefulSetSelector(View, frozen=True):
    """`spec.selector` of a StatefulSet."""

    match_labels: dict[str, str] | None = None


class StatefulSetSpec(View, frozen=True):
    """`spec` of a StatefulSet."""

    replicas: int | None = None
    selector: StatefulSetSelector = StatefulSetSelector()
    template: ServerTemplate = ServerTemplate()
    volume_claim_templates: tuple[KubeObject, ...] = ()


class StatefulSetStatus(View, frozen=True):
    """`status` of a StatefulSet."""

    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    updated_replicas: int = 0


class StatefulSet(KubeObject, frozen=True):
    """A StatefulSet."""

    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()
