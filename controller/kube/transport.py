"""What passes between Manta and an API server: requests and responses, with their bodies.

One function, `Transport.request`, is all that a client needs. There are two implementations:
HTTP (`http.py`) and the embedded API server in the same process. Tests wrap either of them to
inject faults.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import cache
from typing import Any, Final, Generic, Literal, Protocol, TypeAlias, TypeVar, cast

import msgspec
from msgspec import Struct, field

from controller.kube.errors import PathNotFound, Status, StatusError, UnexpectedResponse, error_for
from controller.kube.objects import KubeObject, ObjectList, ObjectMeta
from controller.kube.resources import Resource
from informers import Clock, Codec, Malformed, Unbalanced, Undecodable, split_json

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


# Retry rules: which requests may be sent again, and after how many seconds.

MAX_ATTEMPTS = 10
"""Maximum number of attempts of one request, including the first."""

MAX_RETRY_AFTER = 60.0
"""Maximum seconds of a `Retry-After`; an admission webhook may send any number."""

RESET_DELAY = 1.0
"""Seconds before a read is retried after its connection broke."""

AMBIGUOUS_REASONS = frozenset({"Timeout", "ServerTimeout"})
"""Reasons of a Status after which a write may still have been executed."""


async def sleep_until(clock: Clock, when: float) -> None:
    """Wait until `clock` reaches `when`; return at once if it has."""
    if when <= clock.time():
        return
    woken = asyncio.get_running_loop().create_future()
    timer = clock.call_at(when, _wake, woken)
    try:
        await woken
    finally:
        timer.cancel()


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return `Retry-After` in seconds, at most `MAX_RETRY_AFTER`.

    None if it is absent or not a whole number: no API server sends a date or a negative number.
    """
    value = headers.get("retry-after", "").strip()
    return min(float(value), MAX_RETRY_AFTER) if value.isascii() and value.isdigit() else None


def is_retryable(method: str, status: int, reason: str) -> bool:
    """Return whether a request may be sent again after this response with `Retry-After`.

    Reads always may. A write may only if the server certainly did nothing, which a time-out
    behind the API server (504, or reason Timeout or ServerTimeout) leaves open.
    """
    if status != 429 and status < 500:
        return False
    return method == "GET" or (status != 504 and reason not in AMBIGUOUS_REASONS)


# Decodes responses of an API server: statuses into exceptions, bodies into objects.
#
# A body is accepted as an object only if the status is 2xx and its `kind` is the expected one. A
# `Status`, the HTML page of a proxy or a truncated JSON document is never taken for an object.

T = TypeVar("T", bound=KubeObject)

MAX_ERROR_BODY = 256 * 1024
"""Maximum bytes of an error response to read; the rest is dropped with its connection."""

MAX_BODY: Final = 32 * 1024 * 1024
"""Maximum bytes of a 2xx response with one object. etcd holds 1.5 MiB; JSON enlarges it eightfold.
"""

MAX_LIST: Final = 1024 * 1024 * 1024
"""Maximum bytes of one page of a list, which may come without a limit: 70,000 pods."""

MAX_EXCERPT = 300
"""Maximum characters of an unexpected body that a message quotes."""

_UNCHECKED: Final = re.compile(
    r",? ?<nil>: Invalid value: (null|\"null\"): some validation rules were not checked[^,\]]*"
)
"""What an API server adds to a list of errors when it skipped rules: it tells no user anything."""


class Response(msgspec.Struct, frozen=True):
    """One complete response.

    Attributes:
        body: the whole body; for errors at most `MAX_ERROR_BODY` bytes.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def ok(self) -> bool:
        """True if the status is 2xx."""
        return 200 <= self.status < 300


class _Meta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct, Generic[T]):
    kind: str = ""
    metadata: _Meta | None = None
    items: list[T] | None = None


class _Kind(msgspec.Struct):
    kind: str = ""


class _StatusBody(msgspec.Struct):
    kind: str = ""
    reason: str | None = None
    message: str | None = None
    details: dict[str, Any] | None = None


_kind = msgspec.json.Decoder(_Kind)
_status = msgspec.json.Decoder(_StatusBody)
_plain = msgspec.json.Decoder()


_UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


@cache
def _codec(view: type[T]) -> Codec[T]:
    return Codec(view)


@cache
def _page_decoder(view: type[T]) -> msgspec.json.Decoder[_Page[T]]:
    return msgspec.json.Decoder(_Page[view])


async def read_body(status: int, chunks: Chunks, limit: int = MAX_BODY) -> bytes:
    """Read and close `chunks`: all of a 2xx body, at most `MAX_ERROR_BODY` bytes of an error.

    A proxy may send any number of bytes, and few compressed bytes may become many.

    Raises:
        UnexpectedResponse: a 2xx body has more than `limit` bytes.
    """
    parts: list[bytes] = []
    left = None if 200 <= status < 300 else MAX_ERROR_BODY
    read = 0
    async with aclosing(chunks):
        async for chunk in chunks:
            read += len(chunk)
            if left is None and read > limit:
                raise UnexpectedResponse(f"the answer has more than {limit} bytes")
            parts.append(chunk if left is None else chunk[:left])
            if left is not None:
                left -= len(parts[-1])
                if left == 0:
                    break
    return parts[0] if len(parts) == 1 else b"".join(parts)


def parse_status(answer: Response) -> Status | None:
    """Return the `Status` object in the body, None if the body is anything else."""
    try:
        body = _status.decode(answer.body)
    except _UNDECODABLE:
        return None
    if body.kind != "Status":
        return None
    message = _UNCHECKED.sub("", body.message or "")
    return Status(answer.status, body.reason or "", message, body.details or {})


def error_from_response(answer: Response) -> StatusError:
    """Return the exception for a non-2xx response.

    A 404 without a `Status` object is `PathNotFound`, never `NotFound`: the error page of a proxy
    or of a server without this API does not prove that an object is gone.
    """
    wait = retry_after(answer.headers)
    status = parse_status(answer)
    if status is not None:
        return error_for(status, retry_after=wait)
    foreign = Status(answer.status, message=f"HTTP {answer.status}: {excerpt(answer.body)}")
    if answer.status == 404:
        return PathNotFound(foreign, retry_after=wait)
    return error_for(foreign, retry_after=wait)


def excerpt(body: bytes) -> str:
    """Return the beginning of an unexpected body on one line, for a message."""
    text = " ".join(body[: 4 * MAX_EXCERPT].decode("utf-8", "replace").split())
    if not text:
        return "(empty body)"
    return text if len(text) <= MAX_EXCERPT else text[:MAX_EXCERPT] + "..."


def check_kind(body: bytes, expected: str) -> None:
    """Raise `UnexpectedResponse` unless `body` is a JSON object of kind `expected`."""
    if body.startswith(b'{"kind":"%b"' % expected.encode()):
        return
    try:
        found = _kind_of(body)
    except (Unbalanced, *_UNDECODABLE) as error:
        raise UnexpectedResponse(f"expected {expected}, got: {excerpt(body)}") from error
    if found != expected:
        raise UnexpectedResponse(
            f"expected kind {expected}, got {found or 'none'}: {excerpt(body)}"
        )


def decode_object(body: bytes, resource: Resource[T]) -> T:
    """Decode one object into its typed view, as informers do.

    Raises:
        UnexpectedResponse: the body is not an object of the resource's kind, or a field of the
            view has the wrong type and the view cannot hold a part; the message names the field.
    """
    check_kind(body, resource.kind)
    codec = cast("Codec[T]", _codec(resource.view))
    found = codec.item(body)
    if isinstance(found, Undecodable):
        raise UnexpectedResponse(f"{resource.kind} cannot be read: {found.reason}")
    return found


def decode_plain(body: bytes, kind: str = "") -> Any:
    """Decode plain data, of kind `kind` if one is given. Raises `UnexpectedResponse`."""
    if kind:
        check_kind(body, kind)
    try:
        return _plain.decode(body)
    except _UNDECODABLE as error:
        raise UnexpectedResponse(f"expected JSON, got: {excerpt(body)}") from error


def decode_list(body: bytes, resource: Resource[T]) -> ObjectList[T]:
    """Decode one page of a list into typed views. Raises `UnexpectedResponse`."""
    try:
        page: _Page[T] = _page_decoder(resource.view).decode(body)
    except _UNDECODABLE as error:
        raise UnexpectedResponse(
            f"list of {resource} cannot be read: {error}: {excerpt(body)}"
        ) from error
    if page.kind != f"{resource.kind}List" or page.metadata is None:
        raise UnexpectedResponse(f"expected kind {resource.kind}List, got: {excerpt(body)}")
    return ObjectList(page.items or [], page.metadata.resource_version, page.metadata.continue_)


def decode_metadata_list(body: bytes, resource: Resource[Any]) -> ObjectList[KubeObject]:
    """Decode the metadata of one page of a list, as much of each object as can be decoded.

    Raises:
        UnexpectedResponse: the body is not a list of the resource.
    """
    check_kind(body, f"{resource.kind}List")
    try:
        page = _codec(KubeObject).page(body)
    except Malformed as error:
        raise UnexpectedResponse(f"list of {resource} cannot be read: {error}") from error
    parts = [
        KubeObject(metadata=odd.metadata)
        for odd in page.undecodable
        if isinstance(odd.metadata, ObjectMeta)
    ]
    return ObjectList([*page.objects, *parts], page.revision, page.continue_)


def _kind_of(body: bytes) -> str:
    """Decode `kind` alone; other members may hold anything."""
    try:
        return _kind.decode(body).kind
    except RecursionError:
        found = dict(split_json(body)).get("kind", b'""')
        return msgspec.json.decode(found, type=str)


# Encodes plain data as request bodies.
#
# Only dictionaries, lists and scalars are accepted. A partial view lacks fields of its object, so
# writing it back would delete them on the server: `encode` rejects a view at any depth.

_SCALARS = frozenset({str, int, float, bool, type(None)})

_encode = msgspec.json.Encoder().encode


def encode(body: Any) -> bytes:
    """Encode plain data as JSON.

    Raises:
        TypeError: the body contains a `msgspec.Struct` or another value that is not plain data.
    """
    _refuse_views(body)
    return _encode(body)


def _refuse_views(body: Any) -> None:
    values: list[object] = [body]
    for value in values:  # grows during the iteration
        kind: type[object] = type(value)
        if kind is dict or isinstance(value, Mapping):
            members = cast("Mapping[Any, object]", value).values()
        elif isinstance(value, list | tuple):
            members = cast("list[object]", value)
        elif kind in _SCALARS or isinstance(value, str | int | float | msgspec.Raw):
            continue
        else:
            raise TypeError(
                f"{kind.__name__} is no plain data; a partial view must never be written back"
            )
        values.extend([each for each in members if type(each) not in _SCALARS])
