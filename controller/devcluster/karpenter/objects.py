"""The view of a NodeClaim as its provisioner reads it."""

from __future__ import annotations

from controller.kube.objects import Condition, KubeObject, View
from controller.kube.resources import Resource

GROUP = "karpenter.sh"


class ClaimRequirement(View, frozen=True):
    """`spec.requirements[]`: a label that the node must have."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeClaimSpec(View, frozen=True):
    """`spec` of a NodeClaim."""

    requirements: tuple[ClaimRequirement, ...] = ()
    taints: tuple[dict[str, str], ...] = ()


class NodeClaimStatus(View, frozen=True):
    """`status` of a NodeClaim."""

    node_name: str = ""
    conditions: tuple[Condition, ...] = ()


class ProvisionedClaim(KubeObject, frozen=True):
    """A NodeClaim."""

    spec: NodeClaimSpec = NodeClaimSpec()
    status: NodeClaimStatus = NodeClaimStatus()

    def condition(self, type_: str) -> Condition | None:
        """Return the condition of that type."""
        return next((each for each in self.status.conditions if each.type == type_), None)

    @property
    def node_labels(self) -> dict[str, str]:
        """The labels of its node: its own, and each requirement that leaves no choice."""
        required = {
            each.key: each.values[0]
            for each in self.spec.requirements
            if each.operator == "In" and len(each.values) == 1
        }
        return {**(self.metadata.labels or {}), **required}


NODE_CLAIMS = Resource(GROUP, "v1", "nodeclaims", "NodeClaim", ProvisionedClaim, namespaced=False)
