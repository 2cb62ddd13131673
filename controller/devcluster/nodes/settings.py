"""Settings of the node components: delays and sizes.

Every delay is in seconds. The defaults make a pod Ready about two seconds after its creation,
which is quick and yet slow enough to see every intermediate state.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

ANNOTATION_PREFIX = "sim.manta.dev/"
"""Prefix of the annotations that define the behaviour of a simulated pod."""


@dataclass(frozen=True, slots=True)
class NodeShape:
    """One simulated node.

    Attributes:
        name: its name.
        cpu: capacity, a quantity.
        memory: capacity, a quantity.
        resources: other capacities by name, such as `nvidia.com/gpu`.
        labels: labels besides the usual ones.
        taints: taints as in `spec.taints`.
    """

    name: str
    cpu: str
    memory: str
    resources: Mapping[str, str] = field(default_factory=dict[str, str])
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    taints: tuple[Mapping[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """Settings of the node components.

    Attributes:
        nodes: number of Node objects to register, `<node_name>-0` and so on.
        scheduling: whether pods are placed as by kube-scheduler, on nodes that any client has
            registered, whose pods run here too. If not, pods are spread by uid over our nodes, and
            requests and labels are ignored.
        shapes: nodes of several kinds, instead of `nodes` alike ones.
        node_name: prefix of the nodes' names.
        cpu: capacity of each node, a quantity.
        memory: capacity of each node, a quantity.
        gpus: capacity `nvidia.com/gpu` of each node.
        max_pods: capacity `pods` of each node.
        heartbeat: seconds between renewals of a Node's Ready condition, 0 for none. A real
            controller manager marks a node as lost after 40 s without one.
        start_delay: time from being bound to the start of the first container (image pull).
        init_delay: run time of each init container.
        ready_delay: time from the start of the containers to Ready.
        run_time: time from the start of the containers to their exit, for outcomes that have one
            and no `fail-after`.
        image_back_off: time from ErrImagePull to ImagePullBackOff.
        starts: maximum containers that start at once where pods are processes of this machine; 0
            for one for each CPU.
        start_time: seconds after which a container counts as started even if it is not ready.
        probe_pace: factor of the initial delays and periods of probes, where pods are processes;
            less than 1 for servers that are ready sooner than their probes expect.
        crash_back_off: pause before the second restart of a container; doubles with each one.
        crash_back_off_cap: longest pause between two restarts.
        termination_delay: time from the deletion of a pod to its removal, if the grace period is
            not shorter.
        termination_exit_code: exit code of containers that are told to stop. Ray's `ray start
            --block` ends with 1, so pods of Ray are Failed just before they go.
        eviction_delay: time from the loss of a node to the deletion of its pods.
        job_back_off: pause before a Job replaces its first failed pod; doubles with each one.
        job_back_off_cap: longest pause before a failed pod is replaced.
        workers: number of objects that each component handles at once, and so of its concurrent
            writes.
    """

    nodes: int = 1
    scheduling: bool = False
    shapes: tuple[NodeShape, ...] = ()
    node_name: str = "manta-node"
    cpu: str = "1000"
    memory: str = "8Ti"
    gpus: int = 0
    max_pods: int = 100_000
    heartbeat: float = 0.0
    start_delay: float = 1.0
    init_delay: float = 0.5
    ready_delay: float = 1.0
    run_time: float = 1.0
    image_back_off: float = 10.0
    starts: int = 0
    start_time: float = 15.0
    probe_pace: float = 1.0
    crash_back_off: float = 10.0
    crash_back_off_cap: float = 300.0
    termination_delay: float = 1.0
    termination_exit_code: int = 1
    eviction_delay: float = 300.0
    job_back_off: float = 10.0
    job_back_off_cap: float = 600.0
    workers: int = 16

    @property
    def node_names(self) -> tuple[str, ...]:
        """Names of all nodes, in order."""
        return tuple(shape.name for shape in self.node_shapes)

    @property
    def node_shapes(self) -> tuple[NodeShape, ...]:
        """All nodes, in order."""
        extended = {"nvidia.com/gpu": str(self.gpus)} if self.gpus else {}
        alike = (
            NodeShape(f"{self.node_name}-{number}", self.cpu, self.memory, extended)
            for number in range(self.nodes)
        )
        return self.shapes or tuple(alike)
