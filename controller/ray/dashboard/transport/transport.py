"""The interface between the client and what carries its requests."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class DashboardRequest:
    """One request.

    Attributes:
        method: HTTP method.
        path: path with a leading slash, not quoted.
        query: query parameters.
        headers: header fields with lower-case names; not printed, because they hold the token.
        body: JSON, or None.
        limit: maximum bytes of the response.
    """

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str] = field(repr=False)
    body: bytes | None = field(repr=False)
    limit: int

    def __str__(self) -> str:
        """Return method and path, for messages."""
        return f"{self.method} {self.path}"


@dataclass(frozen=True, slots=True)
class DashboardResponse:
    """One complete response, whatever its status.

    Attributes:
        status: HTTP status code.
        content_type: content type in lower case, without parameters; empty if there is none.
        body: the whole body.
    """

    status: int
    content_type: str
    body: bytes


class DashboardTransport(Protocol):
    """Sends a request once. The caller limits the time by cancelling."""

    async def __call__(self, request: DashboardRequest, /) -> DashboardResponse:
        """Send the request and read the whole response. A redirect is an ordinary response.

        Raises:
            NoResponse: no response came back, or only a part.
            TooLarge: the response exceeds `request.limit` bytes.
        """
        ...
