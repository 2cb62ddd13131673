"""The nodes of simulated Rays: they are the pods of a world that have become ready."""

from __future__ import annotations

from controller.apimachinery.conditions import parse_rfc3339
from controller.kube.objects import Pod
from devcluster.simulated_ray import NodePod
from tests.integration.harness import World, is_ready, role
from tests.ray.dashboard.simulated import Incarnation


class RayNodesOfWorld:
    """The `pods` of a `SimulatedRay`.

    A Ray container joins with its pod's readiness, and stays for as long as it runs. It does not
    end when its node is drained, as a real one does not.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._joined: set[tuple[str, int]] = set()  # uid of the pod, and restarts

    def __call__(self, place: Incarnation) -> tuple[NodePod, ...]:
        """The pods of the cluster of this head that have joined."""
        present = self._world.journal.present.values()
        nodes = (_node(pod) for pod in present if self._is_joined(pod, place[0]))
        return tuple(node for node in nodes if node is not None)

    def _is_joined(self, pod: Pod, cluster_uid: str) -> bool:
        owner = pod.metadata.controller
        if owner is None or owner.uid != cluster_uid:
            return False
        this = (pod.metadata.uid, sum(each.restart_count for each in pod.status.container_statuses))
        if is_ready(pod):
            self._joined.add(this)
        return this in self._joined


def _node(pod: Pod) -> NodePod | None:
    for container in pod.status.container_statuses[:1]:
        if (running := container.state.running) and running.started_at:
            started = parse_rfc3339(running.started_at)
            return NodePod(
                pod.metadata.uid,
                pod.status.pod_ip,
                started,
                container.restart_count,
                role(pod) == "head",
            )
    return None
