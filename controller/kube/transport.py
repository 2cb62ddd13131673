"""The interface between Manta and any API server.

One function, `Transport.request`, is all that a client needs. There are two implementations:
HTTP (`http.py`) and the embedded API server in the same process. Tests wrap either of them to
inject faults.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct, field

Chunks: TypeAlias = AsyncGenerator[bytes, None]
RawResponse: TypeAlias = tuple[int, Mapping[str, str], Chunks]


# Content types of request bodies.

JSON: Literal["application/json"] = "application/json"
MERGE_PATCH: Literal["application/merge-patch+json"] = "application/merge-patch+json"
JSON_PATCH: Literal["application/json-patch+json"] = "application/json-patch+json"

ContentType: TypeAlias = Literal[
    "application/json", "application/merge-patch+json", "application/json-patch+json"
]


class Request(Struct, frozen=True):
    """One request.

    Attributes:
        path: absolute path below the server's root, not yet URL-encoded.
        query: parameters, not yet URL-encoded. With `watch` set to `1` or `true` the response is
            endless and gets a connection of its own.
        headers: header fields. Authentication is added by the transport.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes | None = None

    @property
    def watching(self) -> bool:
        """True if the response is endless."""
        return self.query.get("watch") in {"1", "true"}

    def __str__(self) -> str:
        """Return a text for messages: `GET /api/v1/pods`."""
        return f"{self.method} {self.path}"


class Transport(Protocol):
    """Sends one request and returns status, headers and the body as it arrives."""

    async def request(self, request: Request) -> RawResponse:
        """Send a request.

        Returns:
            Status code, header fields with lower-case names, and an asynchronous generator of
            non-empty chunks. The caller must exhaust or `aclose()` the generator; closing it
            early closes the stream.

        Raises:
            controller.kube.errors.NotSent: the request never reached the server.
            controller.kube.errors.OutcomeUnknown: it may have reached the server.
        """
        ...


# The metrics interface of a client. The client knows neither Prometheus nor its own host.


class ClientMetrics:
    """Records each attempt of a client; the base class ignores it. `method` is the HTTP method."""

    def record_attempt(self, method: str, code: str, seconds: float | None) -> None:
        """Record an attempt that ended with `code`, `<error>` if there was no response.

        `seconds` is None for streams.
        """

    def record_retry(self, method: str, code: str) -> None:
        """Record that the request will be sent again because of `code`."""

    def record_wait(self, method: str, seconds: float) -> None:
        """Record how long the request waited for the shared pause and for a slot."""

    def record_transfer(self, method: str, sent: int, received: int) -> None:
        """Record the sizes of both bodies of a complete exchange, in bytes."""

    def record_resolution(self, seconds: float) -> None:
        """Record how long the resolution of a name took, of the server or of its proxy."""


NO_METRICS = ClientMetrics()
