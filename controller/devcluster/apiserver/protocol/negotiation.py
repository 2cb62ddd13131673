"""Content negotiation: accepted representations and encodings of bodies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import yaml

from controller.devcluster.apiserver.protobuf import MEDIA_TYPE, ProtobufError, decode_protobuf
from controller.devcluster.apiserver.protocol.status import ApiError, bad_request

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.devcluster.apiserver.jsondata import Json

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


@dataclass(frozen=True, slots=True)
class MediaType:
    """One entry of an Accept header.

    Attributes:
        name: media type without parameters.
        parameters: `as`, `g`, `v` and others.
    """

    name: str
    parameters: Mapping[str, str]

    @property
    def form(self) -> str:
        """`Table`, `PartialObjectMetadata` or another requested form; empty for none."""
        return self.parameters.get("as", "")


def accepted(header: str, *, protobuf: bool = False) -> list[MediaType]:
    """Return the servable entries of an Accept header, in the client's order.

    Args:
        header: value of the header.
        protobuf: whether the resource has a protobuf encoding; tables have none.

    Raises:
        ApiError: 406, there is none.
    """
    names = _UNDERSTOOD | {MEDIA_TYPE} if protobuf else _UNDERSTOOD
    entries = [_parse(text) for text in (header or JSON).split(",")]
    served = [
        entry
        for entry in entries
        if entry.name in names and (entry.name, entry.form) != (MEDIA_TYPE, "Table")
    ]
    if not served:
        available = f"{JSON}, {MEDIA_TYPE}" if protobuf else JSON
        raise ApiError(
            406,
            "NotAcceptable",
            f"406: Not Acceptable\n\nAvailable representations: {available}",
            {},
        )
    return served


def prefers_protobuf(header: str) -> bool:
    """Return whether protobuf is the first servable encoding of an Accept header."""
    return accepted(header, protobuf=True)[0].name == MEDIA_TYPE


def _parse(text: str) -> MediaType:
    name, *rest = (part.strip() for part in text.split(";"))
    return MediaType(name, dict(part.split("=", 1) for part in rest if "=" in part))


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
