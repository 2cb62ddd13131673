"""Requests and responses, independent of the network: paths, verbs, and encodings of bodies."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import msgspec
import yaml

from devcluster.apiserver.authentication import ADMIN, User, user_named
from devcluster.apiserver.objects import Json, encode
from devcluster.apiserver.options import flag
from devcluster.apiserver.protobuf import MEDIA_TYPE, ProtobufError, decode_protobuf
from devcluster.apiserver.status import ApiError, bad_request, method_not_allowed


class ResourcePath(msgspec.Struct, frozen=True):
    """A path that names a resource.

    Attributes:
        name: object name, empty for the collection.
        subresource: first part behind the name.
        rest: path behind the subresource, for proxies, with leading slash.
    """

    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    rest: str = ""


def parse_resource_path(path: str) -> ResourcePath | None:
    """Parse a path; None if it cannot name a resource."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in {"status", "finalize"}:
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource = (*rest, "", "")[:3]
    behind = path.split(f"/{name}/{subresource}", 1) if subresource else [path]
    return ResourcePath(
        group, version, plural, namespace, name, subresource, behind[1] if len(behind) > 1 else ""
    )


def proxy_target(name: str) -> tuple[str, str, str]:
    """Return scheme, name and port in `[scheme:]name[:port]`, the name in paths of proxies."""
    parts = name.split(":")
    if len(parts) == 3:
        return parts[0] or "http", parts[1], parts[2]
    return "http", parts[0], parts[1] if len(parts) == 2 else ""


JSON = "application/json"
_UNRECOGNIZED = "the object provided is unrecognized: couldn't get version/kind"
_UNDECODABLE = (
    msgspec.DecodeError,
    yaml.YAMLError,
    RecursionError,  # a thousand levels, or YAML that holds itself
    TypeError,  # YAML with keys or values that JSON does not have
    ValueError,
)
_UNDERSTOOD = {JSON, "application/*", "*/*", ""}


def wants_table(header: str) -> bool:
    """Return whether an Accept header prefers a table to the object itself.

    Raises:
        ApiError: 406, there is none.
    """
    entries = [re.split(r"\s*;\s*", text.strip()) for text in (header or JSON).split(",")]
    served = [parameters for name, *parameters in entries if name in _UNDERSTOOD]
    if not served:
        why = f"406: Not Acceptable\n\nAvailable representations: {JSON}"
        raise ApiError(406, "NotAcceptable", why, {})
    forms = [[each for each in parameters if each.startswith("as=")] for parameters in served]
    return next((form == ["as=Table"] for form in forms if form in ([], ["as=Table"])), False)


def content_type(headers: Mapping[str, str]) -> str:
    """Return the media type of the request's body, without parameters."""
    return headers.get("content-type", JSON).split(";", 1)[0].strip() or JSON


def decode(body: bytes | None, media_type: str) -> Any:
    """Decode a request body.

    Raises:
        ApiError: 400, it is malformed; 415, it is neither JSON nor YAML.
    """
    if not body:
        raise bad_request(
            f"{_UNRECOGNIZED}; json parse error: unexpected end of JSON input (<empty>)"
        )
    if media_type == MEDIA_TYPE:
        try:
            return decode_protobuf(body)
        except ProtobufError as error:
            raise ApiError(415, "UnsupportedMediaType", str(error)) from None
    try:
        if "yaml" in media_type and body[:1] not in b"{[":
            return msgspec.json.decode(msgspec.json.encode(yaml.safe_load(body)))
        if "json" in media_type or "yaml" in media_type:
            return msgspec.json.decode(body)
    except _UNDECODABLE as error:
        raise bad_request(f"{_UNRECOGNIZED}; json parse error: {error}") from None
    raise ApiError(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json, application/yaml, application/vnd.kubernetes.protobuf",
    )


def decode_object(body: bytes | None, media_type: str) -> Json:
    """Decode a request body that must be an object.

    Raises:
        ApiError: as `decode`, or 400 if it is not an object.
    """
    value = decode(body, media_type)
    if not isinstance(value, dict):
        raise bad_request(f"{_UNRECOGNIZED}; json parse error: not an object")
    return value  # pyright: ignore[reportUnknownVariableType]


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


class ApiRequest(msgspec.Struct, frozen=True):
    """One request.

    Attributes:
        headers: header fields with lower-case names.
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


def plain_not_found() -> ApiResponse:
    """Return the plain 404 response for paths that are not served."""
    return bytes_response(404, b"404 page not found\n", "text/plain; charset=utf-8")


async def _once(body: bytes) -> AsyncGenerator[bytes, None]:
    if body:
        yield body


WRITES: Final = {"POST": "create", "PUT": "update", "PATCH": "patch"}
"""Verbs of methods with an object in their body."""


def verb_of(request: ApiRequest, where: ResourcePath, *, custom: bool) -> str:
    """Return the verb of a request; as upstream, odd paths may create custom resources.

    Raises:
        ApiError: 400 or 405.
    """
    if request.method == "GET":
        if where.name:
            return "get"
        return "watch" if flag(request.query, "watch") else "list"
    if request.method == "DELETE":
        return "delete" if where.name else "deletecollection"
    verb = WRITES.get(request.method)
    misplaced = bool(where.name) == (verb == "create" and not where.subresource)
    if verb is None or (misplaced and not custom):
        raise method_not_allowed()
    if misplaced and verb != "create":
        raise bad_request("name must be provided")
    return verb
