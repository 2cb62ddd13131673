"""The fate of a claim in the simulated cloud."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimBehaviour:
    """The fate of a claim. All times are in seconds from its creation.

    Attributes:
        node_after: time until its node is ready.
        plugin_after: time from then until the node offers its GPUs; None for never.
        gpus: number of GPUs that it offers then.
        stock_out: whether there is no such machine: the claim says so instead of getting a node.
        gives_up_after: time from then until the provisioner deletes the claim; None for never.
        lost_after: time from its creation until the machine is lost with its claim; None for never.
        gone_after: time from its deletion until claim and node are gone.
    """

    node_after: float = 5.0
    plugin_after: float | None = 2.0
    gpus: int = 1
    stock_out: bool = False
    gives_up_after: float | None = None
    lost_after: float | None = None
    gone_after: float = 3.0
