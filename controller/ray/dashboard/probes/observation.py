"""The dashboards as a kind observes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from datetime import datetime

    from controller.ray.dashboard.client.values import ProbeValue
    from controller.ray.dashboard.commands.command import CommandOutcome
    from controller.ray.dashboard.head import Head
    from controller.ray.dashboard.probes.probe import Probe


@dataclass(frozen=True, slots=True)
class ProbeObservation:
    """The state of one probe.

    Attributes:
        value: the last definite response; None if there is none yet, or none since the end of the
            last command that invalidates the probe. None means wait, never "not there".
        since: when `value` changed last.
        last_success: start of the last request that had a definite response.
        failing_since: start of the first of the failed requests in a row; None as long as there
            are too few of them.
        error: how the last of them failed, as a sentence; empty without `failing_since`.
    """

    value: ProbeValue | None
    since: datetime
    last_success: datetime | None = None
    failing_since: datetime | None = None
    error: str = ""


class Dashboards(Protocol):
    """The responses of a controller's dashboards. Synchronous, and without side effects."""

    def observation(self, head: Head, probe: Probe) -> ProbeObservation | None:
        """The observation of the probe; None if it has no subscriber yet."""
        ...

    def outcome(self, head: Head, command_id: str) -> CommandOutcome | None:
        """The outcome of a command; None while it is open, unknown or forgotten."""
        ...


class _NoDashboards:
    def observation(self, head: Head, probe: Probe) -> ProbeObservation | None:
        del head, probe

    def outcome(self, head: Head, command_id: str) -> CommandOutcome | None:
        del head, command_id


NO_DASHBOARDS: Dashboards = _NoDashboards()
"""For planning without Ray: nothing is known."""
