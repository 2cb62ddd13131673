"""Pods as kubelets read and write them, and the conditions and patches of their statuses."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

import msgspec

from controller.kube.objects import ContainerPort, KubeObject, View
from controller.kube.resources import Resource


class StatusPart(
    msgspec.Struct, frozen=True, rename="camel", gc=False, kw_only=True, omit_defaults=True
):
    """A part of a status that the kubelet writes; members at their default are left out."""


class ReportedCondition(StatusPart, frozen=True):
    """`conditions[]`."""

    type: str
    status: str
    reason: str | None = None
    message: str | None = None
    last_probe_time: str | None = None
    last_transition_time: str | None = None
    observed_generation: int | None = None


class ConditionUpdate(msgspec.Struct, frozen=True):
    """The desired content of a condition."""

    type: str
    is_true: bool
    reason: str | None = None
    message: str | None = None


def with_conditions(
    conditions: tuple[ReportedCondition, ...], verdicts: Iterable[ConditionUpdate], now: str
) -> tuple[ReportedCondition, ...]:
    """Return `conditions` with these verdicts; times move only with a status."""
    merged = {condition.type: condition for condition in conditions}
    for verdict in verdicts:
        status = "True" if verdict.is_true else "False"
        old = merged.get(verdict.type)
        unchanged = old is not None and old.status == status
        merged[verdict.type] = ReportedCondition(
            type=verdict.type,
            status=status,
            reason=verdict.reason,
            message=verdict.message,
            last_transition_time=old.last_transition_time if old and unchanged else now,
        )
    return tuple(merged.values())


def status_patch(old: StatusPart, new: StatusPart) -> dict[str, Any]:
    """Return the merge patch of `status` from `old` to `new`; empty if they are equal."""
    before: dict[str, Any] = msgspec.to_builtins(old)
    after: dict[str, Any] = msgspec.to_builtins(new)
    changed = {name: value for name, value in after.items() if before.get(name) != value}
    return changed | dict.fromkeys(before.keys() - after.keys())


class PodPhase(StrEnum):
    """`status.phase`."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class PodConditionType(StrEnum):
    """`status.conditions[].type`."""

    SCHEDULED = "PodScheduled"
    INITIALIZED = "Initialized"
    CONTAINERS_READY = "ContainersReady"
    READY = "Ready"


class Waiting(StatusPart, frozen=True):
    """`state.waiting`."""

    reason: str = ""
    message: str = ""


class Running(StatusPart, frozen=True):
    """`state.running`."""

    started_at: str = ""


class Terminated(StatusPart, frozen=True, omit_defaults=False):
    """`state.terminated`."""

    exit_code: int = 0
    reason: str = ""
    started_at: str | None = None
    finished_at: str | None = None
    container_id: str = msgspec.field(default="", name="containerID")
    message: str | msgspec.UnsetType = msgspec.UNSET
    signal: int | msgspec.UnsetType = msgspec.UNSET


class ReportedContainerState(StatusPart, frozen=True):
    """`state` and `lastState`: at most one member is set."""

    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ReportedContainerStatus(StatusPart, frozen=True, omit_defaults=False):
    """`containerStatuses[]`. Written whole, because the API requires most of it."""

    name: str
    image: str = ""
    image_id: str = msgspec.field(default="", name="imageID")
    container_id: str = msgspec.field(default="", name="containerID")
    ready: bool = False
    started: bool | None = False
    restart_count: int = 0
    state: ReportedContainerState = ReportedContainerState()
    last_state: ReportedContainerState = ReportedContainerState()


class PodIP(StatusPart, frozen=True):
    """`podIPs[]` and `hostIPs[]`."""

    ip: str = ""


class ReportedPodStatus(StatusPart, frozen=True):
    """`status`."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    host_ip: str = msgspec.field(default="", name="hostIP")
    host_ips: tuple[PodIP, ...] = msgspec.field(default=(), name="hostIPs")
    pod_ip: str = msgspec.field(default="", name="podIP")
    pod_ips: tuple[PodIP, ...] = msgspec.field(default=(), name="podIPs")
    start_time: str | None = None
    conditions: tuple[ReportedCondition, ...] = ()
    init_container_statuses: tuple[ReportedContainerStatus, ...] = ()
    container_statuses: tuple[ReportedContainerStatus, ...] = ()

    @property
    def in_order(self) -> tuple[ReportedContainerStatus, ...]:
        """All containers in the order in which they start."""
        return self.init_container_statuses + self.container_statuses

    @property
    def has_run(self) -> bool:
        """True if any container has ever started."""
        return any(
            c.state.running or c.state.terminated or c.last_state.terminated for c in self.in_order
        )

    def condition(self, kind: str) -> ReportedCondition | None:
        """Return the condition of that type, if there is one."""
        return next((c for c in self.conditions if c.type == kind), None)

    def is_true(self, kind: str) -> bool:
        """Return whether the condition of that type is there and True."""
        condition = self.condition(kind)
        return condition is not None and condition.status == "True"


class RequestedResources(View, frozen=True):
    """`resources` of a container; the API server has filled in requests."""

    requests: dict[str, str | float] | None = None


class KubeletContainer(View, frozen=True):
    """`spec.containers[]` and `spec.initContainers[]`."""

    name: str = ""
    image: str = ""
    resources: RequestedResources = RequestedResources()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str | None = None

    @property
    def is_sidecar(self) -> bool:
        """True if this init container keeps running beside the containers."""
        return self.restart_policy == "Always"


class NodeRequirement(View, frozen=True):
    """`matchExpressions[]`: a rule for one label of a node."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(View, frozen=True):
    """`nodeSelectorTerms[]`: rules that a node must meet together."""

    match_expressions: tuple[NodeRequirement, ...] = ()


class NodeSelectorTerms(View, frozen=True):
    """`requiredDuringSchedulingIgnoredDuringExecution`: a node must meet one of the terms."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class NodeAffinity(View, frozen=True):
    """`spec.affinity.nodeAffinity`."""

    required_during_scheduling_ignored_during_execution: NodeSelectorTerms | None = None


class Affinity(View, frozen=True):
    """`spec.affinity`."""

    node_affinity: NodeAffinity | None = None


class KubeletPodSpec(View, frozen=True):
    """`spec`."""

    node_name: str = ""
    host_network: bool = False
    restart_policy: str = "Always"
    scheduling_gates: tuple[dict[str, Any], ...] = ()
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: tuple[dict[str, Any], ...] = ()
    topology_spread_constraints: tuple[dict[str, Any], ...] = ()
    volumes: tuple[Any, ...] = ()
    init_containers: tuple[KubeletContainer, ...] = ()
    containers: tuple[KubeletContainer, ...] = ()

    @property
    def required_node_terms(self) -> tuple[NodeSelectorTerm, ...]:
        """The terms of which a node must meet one; empty if there are none."""
        affinity = self.affinity and self.affinity.node_affinity
        required = affinity and affinity.required_during_scheduling_ignored_during_execution
        return required.node_selector_terms if required else ()

    def is_sidecar(self, name: str) -> bool:
        """Return whether `name` is an init container that keeps running."""
        return any(
            container.is_sidecar and container.name == name for container in self.init_containers
        )


class KubeletPod(KubeObject, frozen=True):
    """A Pod."""

    spec: KubeletPodSpec = KubeletPodSpec()
    status: ReportedPodStatus = ReportedPodStatus()

    @property
    def is_finished(self) -> bool:
        """True if no container will ever run again."""
        return self.status.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED)


PODS = Resource("", "v1", "pods", "Pod", KubeletPod)
