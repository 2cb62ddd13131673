"""Requests and responses, independent of the network."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from controller.devcluster.apiserver.access.users import ADMIN, user_named
from controller.devcluster.apiserver.jsondata import encode
from controller.devcluster.apiserver.protobuf import (
    MEDIA_TYPE,
    STREAM_MEDIA_TYPE,
    encode_event,
    encode_protobuf,
)
from controller.devcluster.apiserver.protocol.negotiation import JSON

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from controller.devcluster.apiserver.access.users import User
    from controller.devcluster.apiserver.protocol.status import ApiError


class ReceivedRequest(Protocol):
    """A request as received from a client or the network: header fields in any case."""

    @property
    def method(self) -> str:
        """Upper-case HTTP method."""
        ...

    @property
    def path(self) -> str:
        """Absolute path, not URL-encoded."""
        ...

    @property
    def query(self) -> Mapping[str, str]:
        """Parameters, not URL-encoded."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Header fields."""
        ...

    @property
    def body(self) -> bytes | None:
        """The whole body, or None."""
        ...


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One request.

    Attributes:
        method: upper-case HTTP method.
        path: absolute path, not URL-encoded.
        query: parameters, not URL-encoded.
        headers: header fields with lower-case names.
        body: the whole body, or None.
        sender: the authenticated user; None without a network.
    """

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes | None
    sender: User | None = None

    @property
    def user_agent(self) -> str:
        """The client program."""
        return self.headers.get("user-agent", "")

    @property
    def user(self) -> User:
        """The impersonated user, the sender, or the admin.

        Without authentication, a bearer token is the name of a user.
        """
        name = self.headers.get("impersonate-user", "")
        if not name and self.sender is None:
            name = self.headers.get("authorization", "").removeprefix("Bearer ")
        if not name:
            return self.sender or ADMIN
        group = self.headers.get("impersonate-group")
        return user_named(name, group) if group else user_named(name)


def lower_case(headers: Mapping[str, str]) -> dict[str, str]:
    """Return header fields with lower-case names."""
    return {name.lower(): value for name, value in headers.items()}


@dataclass(slots=True)
class ApiResponse:
    """One answer.

    Attributes:
        status: HTTP status code.
        chunks: the body.
        headers: header fields with lower-case names.
    """

    status: int
    chunks: AsyncGenerator[bytes, None]
    headers: dict[str, str] = field(default_factory=dict[str, str])


def bytes_response(status: int, body: bytes, media_type: str = JSON) -> ApiResponse:
    """Return an answer whose body is known."""
    headers = {"content-type": media_type, "content-length": str(len(body))}
    return ApiResponse(status, _once(body), headers)


def json_response(status: int, value: Any) -> ApiResponse:
    """Return an answer with a JSON value."""
    return bytes_response(status, encode(value))


def error_response(error: ApiError) -> ApiResponse:
    """Return an answer with the status of an error."""
    answer = json_response(error.code, error.body())
    if error.details and "retryAfterSeconds" in error.details:
        answer.headers["retry-after"] = str(error.details["retryAfterSeconds"])
    return answer


async def in_protobuf(answer: ApiResponse) -> ApiResponse:
    """Return the same answer in protobuf; logs and other text stay unchanged."""
    if answer.headers.get("content-type") != JSON:
        return answer
    if "content-length" not in answer.headers:
        headers = answer.headers | {"content-type": STREAM_MEDIA_TYPE}
        return ApiResponse(answer.status, _frames(answer.chunks), headers)
    body = b"".join([chunk async for chunk in answer.chunks])
    encoded = bytes_response(answer.status, encode_protobuf(msgspec.json.decode(body)), MEDIA_TYPE)
    encoded.headers = answer.headers | encoded.headers
    return encoded


async def _frames(lines: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """Yield the events of a watch as frames; each chunk holds whole lines."""
    async with aclosing(lines):
        async for chunk in lines:
            yield b"".join(encode_event(msgspec.json.decode(line)) for line in chunk.splitlines())


def plain_not_found() -> ApiResponse:
    """Return the plain 404 response for paths that are not served."""
    return bytes_response(404, b"404 page not found\n", "text/plain; charset=utf-8")


async def _once(body: bytes) -> AsyncGenerator[bytes, None]:
    if body:
        yield body
