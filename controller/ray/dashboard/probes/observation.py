"""What is known of a head's answers, and where planners read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from datetime import datetime

    from controller.ray.dashboard.client.results import ProbeValue
    from controller.ray.dashboard.commands.command import CommandOutcome
    from controller.ray.dashboard.head import Head
    from controller.ray.dashboard.probes.probe import Probe


@dataclass(frozen=True, slots=True)
class ProbeObservation:
    """The state of one probe.

    Attributes:
        value: the last definite answer; None if there is none yet, or none since the last command
            about the same job ended. None means wait, never "not there".
        since: when `value` came to be what it is.
        last_success: start of the last request that had a definite answer.
        failing_since: start of the present run of failed requests. None while fewer have failed
            than decide anything.
        error: how the last request of that run failed, as a sentence; empty without a run.
    """

    value: ProbeValue | None
    since: datetime
    last_success: datetime | None = None
    failing_since: datetime | None = None
    error: str = ""


class Dashboards(Protocol):
    """What a controller's dashboards have said. Synchronous, without side effect."""

    def observation(self, head: Head, probe: Probe) -> ProbeObservation | None:
        """What the probe has found; None if nobody is interested in it yet."""
        ...

    def outcome(self, head: Head, command_id: str) -> CommandOutcome | None:
        """How a command ended; None while it is open, unknown or forgotten."""
        ...


class _NoDashboards:
    def observation(self, head: Head, probe: Probe) -> ProbeObservation | None:
        del head, probe

    def outcome(self, head: Head, command_id: str) -> CommandOutcome | None:
        del head, command_id


NO_DASHBOARDS: Dashboards = _NoDashboards()
"""Where no Ray is asked: nothing is known."""
