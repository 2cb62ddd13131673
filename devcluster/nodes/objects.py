"""Views of Services, EndpointSlices, nodes and workloads for the node components.

The views of `controller.kube.objects` hold what Manta reads; a controller of the cluster itself
needs other fields.
"""

from __future__ import annotations

from typing import Any

import msgspec

from controller.kube.objects import KubeObject, View
from controller.kube.resources import NAMESPACES, SERVICES, Resource
from devcluster.nodes.pods import PODS, ReportedCondition, StatusPart


class RawEndpointSlice(KubeObject, frozen=True):
    """An EndpointSlice. Endpoints and ports stay plain data, to be compared and written."""

    endpoints: list[dict[str, Any]] | None = None
    ports: list[dict[str, Any]] | None = None


class ControlledJobSpec(View, frozen=True):
    """`spec` of a Job. The template stays plain data: it is passed on to pods."""

    parallelism: int | None = None
    completions: int | None = None
    backoff_limit: int | None = None
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None
    template: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])

    @property
    def wanted(self) -> int:
        """How many pods have to succeed."""
        return 1 if self.completions is None else self.completions


class ReportedJobStatus(StatusPart, frozen=True):
    """`status` of a Job."""

    active: int = 0
    ready: int = 0
    terminating: int = 0
    succeeded: int = 0
    failed: int = 0
    start_time: str | None = None
    completion_time: str | None = None
    conditions: tuple[ReportedCondition, ...] = ()

    def condition(self, kind: str) -> ReportedCondition | None:
        """Return the condition of that type if it is there and True."""
        return next((c for c in self.conditions if (c.type, c.status) == (kind, "True")), None)


class ControlledJob(KubeObject, frozen=True):
    """A Job."""

    spec: ControlledJobSpec = ControlledJobSpec()
    status: ReportedJobStatus = ReportedJobStatus()


class ReplicatedSpec(View, frozen=True):
    """`spec` of workloads. Selector and template stay plain data: they are passed on."""

    replicas: int | None = None
    selector: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])
    template: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])

    @property
    def count(self) -> int:
        """How many pods are wanted."""
        return 1 if self.replicas is None else self.replicas


class ReportedReplicas(StatusPart, frozen=True):
    """`status` of these kinds, as far as they have the same."""

    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    updated_replicas: int = 0


class UpdateStrategy(View, frozen=True):
    """`spec.updateStrategy` of a StatefulSet."""

    type: str = ""


class ControlledStatefulSetSpec(ReplicatedSpec, frozen=True):
    """`spec` of a StatefulSet."""

    service_name: str = ""
    pod_management_policy: str = ""
    update_strategy: UpdateStrategy = UpdateStrategy()
    volume_claim_templates: tuple[dict[str, Any], ...] = ()


class ReportedStatefulSetStatus(ReportedReplicas, frozen=True):
    """`status` of a StatefulSet."""

    current_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""


class ControlledStatefulSet(KubeObject, frozen=True):
    """A StatefulSet."""

    spec: ControlledStatefulSetSpec = ControlledStatefulSetSpec()
    status: ReportedStatefulSetStatus = ReportedStatefulSetStatus()


class ControlledReplicaSet(KubeObject, frozen=True):
    """A ReplicaSet."""

    spec: ReplicatedSpec = ReplicatedSpec()
    status: ReportedReplicas = ReportedReplicas()


class ControlledDeploymentSpec(ReplicatedSpec, frozen=True):
    """`spec` of a Deployment."""

    paused: bool = False
    strategy: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])


class ReportedDeploymentStatus(ReportedReplicas, frozen=True):
    """`status` of a Deployment."""

    conditions: tuple[ReportedCondition, ...] = ()


class ControlledDeployment(KubeObject, frozen=True):
    """A Deployment."""

    spec: ControlledDeploymentSpec = ControlledDeploymentSpec()
    status: ReportedDeploymentStatus = ReportedDeploymentStatus()


class ScheduledNodeSpec(View, frozen=True):
    """`spec` of a Node."""

    unschedulable: bool = False
    taints: tuple[dict[str, Any], ...] = ()


class ScheduledNodeStatus(View, frozen=True):
    """`status` of a Node: amounts of resources."""

    capacity: dict[str, str | float] | None = None
    allocatable: dict[str, str | float] | None = None


class ScheduledNode(KubeObject, frozen=True):
    """A Node as a scheduler reads it."""

    spec: ScheduledNodeSpec = ScheduledNodeSpec()
    status: ScheduledNodeStatus = ScheduledNodeStatus()


NODES = Resource("", "v1", "nodes", "Node", ScheduledNode)
REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet", ControlledReplicaSet)
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", ControlledDeployment)
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet", ControlledStatefulSet)
JOBS = Resource("batch", "v1", "jobs", "Job", ControlledJob)
ENDPOINT_SLICES = Resource(
    "discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", RawEndpointSlice
)

KNOWN: dict[str, Resource[Any]] = {
    str(resource): resource
    for resource in (
        PODS,
        SERVICES,
        JOBS,
        STATEFUL_SETS,
        DEPLOYMENTS,
        REPLICA_SETS,
        ENDPOINT_SLICES,
        NAMESPACES,
        NODES,
    )
}
"""The view of each resource that all components share."""
