"""Ray's view of a cluster whose pods are being replaced."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct, field

from controller.apimachinery.conditions import time_of
from controller.kube.objects import Pod
from controller.ray.api.pod_state import is_ready
from controller.ray.api.raycluster import ClusterSpec, RayCluster
from controller.ray.dashboard import (
    ActivityProbe,
    CommandOutcome,
    Dashboards,
    Head,
    HealthProbe,
    NodesProbe,
    ProbeObservation,
    RayNode,
    RayNodes,
    RayVersion,
)
from controller.ray.head import find_head
from controller.runtime.kind import CacheReader


class RayView(Struct, frozen=True):
    """The last answers of the present head's dashboard.

    Attributes:
        head: the address of the dashboard; None without a live head.
        head_pod: the pod behind it.
        nodes: observation of the probe of Ray's nodes.
        health: observation of the probe of Ray's version.
        activity: observation of the probe of what uses the cluster.
        drains: outcomes of commands to drain nodes, by id.
        assumed: whether no dashboard is asked: ready pods count as nodes, and as drained once they
            are told to drain.
    """

    head: Head | None = None
    head_pod: Pod | None = None
    nodes: ProbeObservation | None = None
    health: ProbeObservation | None = None
    activity: ProbeObservation | None = None
    drains: Mapping[str, CommandOutcome] = field(default_factory=dict[str, "CommandOutcome"])
    assumed: bool = False

    @property
    def answers(self) -> bool:
        """True if the nodes are known."""
        if self.assumed:
            return True
        seen = self.nodes
        return seen is not None and isinstance(seen.value, RayNodes) and seen.failing_since is None

    @property
    def knows_enough(self) -> bool:
        """True if the nodes and the version are known."""
        return self.assumed or (self.answers and bool(self.version))

    @property
    def silence(self) -> str:
        """Text about since when Ray does not answer and the last error; empty if it answers."""
        failed = [each for each in (self.nodes, self.health) if each and each.failing_since]
        return failed[0].error if failed and not self.assumed else ""

    @property
    def version(self) -> str:
        """Ray's own version, empty if it is not known."""
        value = self.health.value if self.health is not None else None
        return value.ray_version if isinstance(value, RayVersion) else ""

    def node_of(self, pod: Pod) -> RayNode | None:
        """Return the newest node on a pod, dead or alive; None if there is none or unknown."""
        value = self.nodes.value if self.nodes is not None else None
        created = time_of(pod.metadata.creation_timestamp)
        if not isinstance(value, RayNodes) or created is None or not pod.status.pod_ip:
            return None
        return value.at(pod.status.pod_ip, created)

    def is_alive(self, pod: Pod) -> bool:
        """Return whether Ray lists a node on the pod as alive."""
        if self.assumed:
            return is_ready(pod)
        node = self.node_of(pod) if self.answers else None
        return node is not None and node.alive

    def is_dead(self, pod: Pod) -> bool:
        """Return whether Ray lists the node on the pod as dead."""
        if self.assumed:
            return True
        node = self.node_of(pod) if self.answers else None
        return node is not None and not node.alive

    def never_joined(self, pod: Pod) -> bool:
        """Return whether a head older than the pod has never listed a node on it."""
        if self.assumed or not self.answers or self.head is None or self.head_pod is None:
            return False
        born, head_born = pod.metadata.creation_timestamp, self.head_pod.metadata.creation_timestamp
        is_older = self.head.restarts == 0 and (head_born or "") <= (born or "")
        return is_older and self.node_of(pod) is None


ASSUMED = RayView(assumed=True)


def observe_ray(
    cluster: RayCluster,
    spec: ClusterSpec,
    reads: CacheReader,
    dashboards: Dashboards,
    *,
    domain: str,
    drains: Iterable[str] = (),
) -> RayView:
    """Observe Ray; `drains` are the ids of the commands whose outcomes are needed."""
    found = find_head(cluster, spec, reads, domain=domain)
    if found is None or found.terminating:
        return RayView()
    head = found.dashboard
    outcomes = {each: dashboards.outcome(head, each) for each in drains}
    return RayView(
        head,
        found.pod,
        dashboards.observation(head, NodesProbe()),
        dashboards.observation(head, HealthProbe()),
        dashboards.observation(head, ActivityProbe()),
        {name: outcome for name, outcome in outcomes.items() if outcome is not None},
    )
