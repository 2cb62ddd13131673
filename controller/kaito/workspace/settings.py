"""Settings of the Workspace controller."""

from __future__ import annotations

from dataclasses import dataclass, field

from controller.kaito.api.options import KaitoOptions
from controller.kaito.provisioning.claim_facts import ClaimSettings


@dataclass(frozen=True, slots=True)
class WorkspaceSettings:
    """Settings of the Workspace controller.

    Attributes:
        options: settings about the cluster.
        claims: durations of waits for nodes.
    """

    options: KaitoOptions = field(default_factory=KaitoOptions)
    claims: ClaimSettings = field(default_factory=ClaimSettings)
