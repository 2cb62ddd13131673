"""The cloud of the Workspace demo: its first machine is out of stock, the next lacks its plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.devcluster.karpenter import ClaimBehaviour

if TYPE_CHECKING:
    from controller.devcluster.karpenter import ProvisionedClaim

OUT_OF_STOCK: Final = ClaimBehaviour(node_after=1.5, stock_out=True, gone_after=1.0)
LATE_PLUGIN: Final = ClaimBehaviour(node_after=3.0, plugin_after=3.0, gone_after=1.0)


class DemoCloud:
    """Decides what happens to each claim, by the order in which they were first seen."""

    def __init__(self) -> None:
        self._order: dict[str, int] = {}

    def __call__(self, claim: ProvisionedClaim) -> ClaimBehaviour:
        """Let the first of all claims be out of stock."""
        number = self._order.setdefault(claim.metadata.uid, len(self._order))
        return OUT_OF_STOCK if number == 0 else LATE_PLUGIN
