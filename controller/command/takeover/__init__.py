"""`manta take-over` and `manta hand-back`: change the operator of a cluster without a gap."""

from __future__ import annotations

from controller.command.takeover.deployments import ChangeOptions
from controller.command.takeover.run import hand_back, take_over

__all__ = ["ChangeOptions", "hand_back", "take_over"]
