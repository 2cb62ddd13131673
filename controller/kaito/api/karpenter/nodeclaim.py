"""NodeClaim of Karpenter: what is read of it. Its CRD may be absent."""

from __future__ import annotations

from typing import Final

import msgspec

from controller.kube.objects import Condition, KubeObject, View
from controller.kube.resources import Resource


class NodeClaimStatus(View, frozen=True):
    """`status` of a NodeClaim."""

    node_name: str = ""
    provider_id: str = msgspec.field(default="", name="providerID")
    conditions: tuple[Condition, ...] = ()

    def condition(self, type_: str) -> Condition | None:
        """Return the condition of that type."""
        return next((each for each in self.conditions if each.type == type_), None)


class NodeClaim(KubeObject, frozen=True):
    """A NodeClaim, cluster-scoped."""

    status: NodeClaimStatus = NodeClaimStatus()


NODE_CLAIMS: Final = Resource(
    "karpenter.sh", "v1", "nodeclaims", "NodeClaim", NodeClaim, namespaced=False
)
