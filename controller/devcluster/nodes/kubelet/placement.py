"""Placement of pods: the nodes that have the labels which a pod requires.

This is off unless the settings enable it, because most examples name labels of clouds. Requests and
taints are ignored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.kube.resources import NODES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.devcluster.nodes.components.component_context import ComponentContext
    from controller.devcluster.nodes.objects.pods import KubeletPod, NodeRequirement

NO_NODE: Final = {
    "reason": "Unschedulable",
    "message": "0 nodes are available: none has the labels that the pod requires.",
}
"""Report about a pod without candidates."""


class Placement:
    """Finds nodes for pods.

    Args:
        context: has the settings, which enable labels and name the kubelet's own nodes.
    """

    def __init__(self, context: ComponentContext) -> None:
        self._settings = context.settings
        self._nodes = context.caches.informer(NODES).lister

    def serves(self, node: str) -> bool:
        """Return whether the kubelet runs the pods of that node: its own, or all with labels."""
        return self._settings.node_labels or node in self._settings.node_names

    def candidates(self, pod: KubeletPod) -> list[str]:
        """Return names of nodes for the pod; the kubelet's own for one without requirements."""
        if not self._settings.node_labels or not pod.spec.requires_labels:
            return list(self._settings.node_names)
        found = ((node.metadata.name, node.metadata.labels or {}) for node in self._nodes.list())
        return sorted(name for name, labels in found if has_required_labels(pod, labels))


def has_required_labels(pod: KubeletPod, labels: Mapping[str, str]) -> bool:
    """Return whether a node with these labels meets the selector and the affinity of the pod."""
    selector = (pod.spec.node_selector or {}).items()
    if any(labels.get(key) != value for key, value in selector):
        return False
    terms = pod.spec.required_node_terms
    return not terms or any(
        all(_is_met(each, labels) for each in term.match_expressions) for term in terms
    )


def _is_met(requirement: NodeRequirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:
            return False
