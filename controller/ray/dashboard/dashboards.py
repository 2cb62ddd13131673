"""The dashboards as a kind observes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from controller.ray.dashboard.commands.command import CommandOutcome
    from controller.ray.dashboard.head import Head
    from controller.ray.dashboard.probes.observation import ProbeObservation
    from controller.ray.dashboard.probes.probe import Probe


class Dashboards(Protocol):
    """The responses of a controller's dashboards. Synchronous, without side effects."""

    def observation(self, head: Head, probe: Probe) -> ProbeObservation | None:
        """Return the observation of the probe; None if it has no subscriber yet."""
        ...

    def outcome(self, head: Head, command_id: str) -> CommandOutcome | None:
        """Return the outcome of a command; None while it is open, unknown or forgotten."""
        ...


class _NoDashboards:
    def observation(self, head: Head, probe: Probe) -> ProbeObservation | None:
        del head, probe

    def outcome(self, head: Head, command_id: str) -> CommandOutcome | None:
        del head, command_id


NO_DASHBOARDS: Dashboards = _NoDashboards()
"""Dashboards for planning without Ray: no response is known."""
