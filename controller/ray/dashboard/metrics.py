"""What the actors tell about themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class DashboardStatistics:
    """The actors as they are now.

    Attributes:
        actors: head incarnations that somebody is interested in.
        failing: of them, those that have not answered for a while.
        probes: what is being watched.
        commands: open commands.
        waiting: actors that wait for a slot.
        in_flight: requests under way, by what was expected of the dashboard.
    """

    actors: int
    failing: int
    probes: int
    commands: int
    waiting: int
    in_flight: Mapping[str, int]


class RequestMetrics(Protocol):
    """Told of every request and every command."""

    def record_request(self, request: str, result: str, seconds: float) -> None:
        """A request (`job`, `health`, `submit`, `stop`, `delete`) ended with this result.

        Results: `answered`, `refused`, `unusable`, `no_answer`, `not_sent`.
        """
        ...

    def record_command(self, command: str, outcome: str) -> None:
        """A command ended: `done`, `refused` or `expired`."""
        ...


class _NoMetrics:
    def record_request(self, request: str, result: str, seconds: float) -> None: ...

    def record_command(self, command: str, outcome: str) -> None: ...


NO_METRICS: RequestMetrics = _NoMetrics()
