"""The interface for metrics of the actors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class DashboardStatistics:
    """The present numbers of the actors.

    Attributes:
        actors: head incarnations with a subscriber or an open command.
        failing: actors whose head has not answered for a while.
        probes: probes with a subscriber.
        commands: open commands.
        waiting: actors that wait for a slot.
        in_flight: requests in flight, by the result of the head's previous request.
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
        """Record the result of a request (`job`, `serve`, `nodes`, `submit` ...).

        Results: `answered`, `unfinished`, `refused`, `unusable`, `no_answer`, `not_sent`.
        """
        ...

    def record_command(self, command: str, outcome: str) -> None:
        """Record the end of a command: `done`, `refused` or `expired`."""
        ...


class _NoMetrics:
    def record_request(self, request: str, result: str, seconds: float) -> None: ...

    def record_command(self, command: str, outcome: str) -> None: ...


NO_METRICS: RequestMetrics = _NoMetrics()
