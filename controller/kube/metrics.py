"""The metrics interface of a client. The client knows neither Prometheus nor its own host."""

from __future__ import annotations

from typing import Protocol


class ClientMetrics(Protocol):
    """Records each attempt of a client. `method` is the HTTP method."""

    def record_attempt(self, method: str, code: str, seconds: float | None) -> None:
        """Record an attempt that ended with `code`, `<error>` if there was no response.

        `seconds` is None for streams.
        """
        ...

    def record_retry(self, method: str, code: str) -> None:
        """Record that the request will be sent again because of `code`."""
        ...

    def record_wait(self, method: str, seconds: float) -> None:
        """Record how long the request waited for the shared pause and for a slot."""
        ...

    def record_transfer(self, method: str, sent: int, received: int) -> None:
        """Record the sizes of both bodies of a complete exchange, in bytes."""
        ...

    def record_resolution(self, seconds: float) -> None:
        """Record how long the resolution of a name took, of the server or of its proxy."""
        ...


class _NoMetrics:
    """Discards everything."""

    def record_attempt(self, method: str, code: str, seconds: float | None) -> None:
        pass

    def record_retry(self, method: str, code: str) -> None:
        pass

    def record_wait(self, method: str, seconds: float) -> None:
        pass

    def record_transfer(self, method: str, sent: int, received: int) -> None:
        pass

    def record_resolution(self, seconds: float) -> None:
        pass


NO_METRICS: ClientMetrics = _NoMetrics()
