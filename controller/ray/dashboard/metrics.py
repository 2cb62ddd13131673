"""The numbers that the actors give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class DashboardStatistics:
    """The actors as they are now.

    Attributes:
        actors: head incarnations with a subscriber or an open command.
        failing: those of them that have not answered for a while.
        probes: probes with a subscriber.
        commands: open commands.
        waiting: actors that wait for a slot.
        in_flight: requests under way, by how the last request to the head went.
    """

    actors: int
    failing: int
    probes: int
    commands: int
    waiting: int
    in_flight: Mapping[str, int]


class RequestMetrics(Protocol):
    """Records every request and every command."""

    def record_request(self, request: str, result: str, seconds: float) -> None:
        """A request (`job`, `serve`, `nodes`, `submit` ...) ended with this result.

        Results: `answered`, `unfinished`, `refused`, `unusable`, `no_answer`, `not_sent`.
        """
        ...

    def record_command(self, command: str, outcome: str) -> None:
        """A command ended: `done`, `refused` or `expired`."""
        ...


class _NoMetrics:
    def record_request(self, request: str, result: str, seconds: float) -> None: ...

    def record_command(self, command: str, outcome: str) -> None: ...


NO_METRICS: RequestMetrics = _NoMetrics()
