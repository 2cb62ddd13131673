"""Placement of pods: the nodes that have the labels which a pod requires.

This is off unless the settings ask for it, because most examples name labels of clouds. Neither
requests nor taints are looked at.
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
"""The report of a pod that has no candidates."""


class Placement:
    """Finds nodes for pods.

    Args:
        context: its settings say whether labels are looked at, and name the kubelet's own nodes.
    """

    def __init__(self, context: ComponentContext) -> None:
        self._settings = context.settings
        self._nodes = context.caches.informer(NODES).lister

    def serves(self, node: str) -> bool:
        """Return whether the kubelet runs the pods of that node: its own, or with labels all."""
        return self._settings.node_labels or node in self._settings.node_names

    def candidates(self, pod: KubeletPod) -> list[str]:
        """Names of the nodes on which the pod may be; one that requires nothing is on our own."""
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
