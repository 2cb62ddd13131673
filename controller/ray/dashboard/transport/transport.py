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
        path: begins with a slash, and is not quoted.
        query: its parameters.
        headers: with lower-case names. They are not printed, because they hold the token.
        body: JSON, or None.
        limit: bytes that the response may have.
    """

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str] = field(repr=False)
    body: bytes | None = field(repr=False)
    limit: int

    def __str__(self) -> str:
        """For messages: method and path."""
        return f"{self.method} {self.path}"


@dataclass(frozen=True, slots=True)
class DashboardResponse:
    """One complete response, whatever its status.

    Attributes:
        status: HTTP status code.
        content_type: lower case, without parameters; empty if there was none.
        body: all of it.
    """

    status: int
    content_type: str
    body: bytes


class DashboardTransport(Protocol):
    """Sends a request once. The caller sets the time limit, and cancels."""

    async def __call__(self, request: DashboardRequest, /) -> DashboardResponse:
        """Send it and read the whole response. A redirect is a response like any other.

        Raises:
            NoResponse: none came back, or not all of it.
            TooLarge: it had more bytes than `request.limit`.
        """
        ...
