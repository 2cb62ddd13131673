"""The envelope of Kubernetes around a protobuf message: a magic number, then kind and version.

Events of a watch are frames with a length in front; each holds a type and an object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from controller.devcluster.apiserver.fields.field_table import table
from controller.devcluster.apiserver.protobuf.messages import read_message, write_message
from controller.devcluster.apiserver.protobuf.scalars import bytes_of
from controller.devcluster.apiserver.protobuf.wire import ProtobufError, bytes_field, read_fields

if TYPE_CHECKING:
    from controller.devcluster.apiserver.jsondata import Json

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
STREAM_MEDIA_TYPE = f"{MEDIA_TYPE};stream=watch"
_MAGIC = b"k8s\x00"
_TYPE_META, _RAW, _CONTENT_ENCODING, _CONTENT_TYPE = 1, 2, 3, 4
_API_VERSION, _KIND = 1, 2
_LIST = "List"
_LIST_METADATA, _ITEMS = 1, 2
_TYPES = {("events.k8s.io/v1", "Event"): "EventsEvent"}
"""Types whose name in the table is not that of their kind."""


def decode_protobuf(body: bytes) -> Json:
    """Decode an object with its envelope.

    Raises:
        ProtobufError: malformed, or of a kind without a protobuf encoding.
    """
    if not body.startswith(_MAGIC):
        raise ProtobufError("the body is not a Kubernetes protobuf object")
    type_meta = raw = b""
    for number, value in read_fields(body[len(_MAGIC) :]):
        if number == _TYPE_META and isinstance(value, bytes):
            type_meta = value
        elif number == _RAW and isinstance(value, bytes):
            raw = value
    names = {number: value for number, value in read_fields(type_meta) if isinstance(value, bytes)}
    try:
        api_version, kind = (names.get(number, b"").decode() for number in (_API_VERSION, _KIND))
    except UnicodeDecodeError as error:
        raise ProtobufError(f"apiVersion or kind is not UTF-8: {error}") from None
    try:
        message = _read(api_version, kind, raw)
    except RecursionError:
        raise ProtobufError(f"{kind} is nested too deeply") from None
    return {"apiVersion": api_version, "kind": kind} | message


def encode_protobuf(object_: Json) -> bytes:
    """Encode an object or a list with its envelope.

    Raises:
        ProtobufError: the kind has no protobuf encoding.
    """
    kind, api_version = str(object_.get("kind", "")), str(object_.get("apiVersion", ""))
    type_meta = bytes_field(_API_VERSION, api_version.encode()) + bytes_field(_KIND, kind.encode())
    return b"".join(
        (
            _MAGIC,
            bytes_field(_TYPE_META, type_meta),
            bytes_field(_RAW, _write(api_version, kind, object_)),
            bytes_field(_CONTENT_ENCODING, b""),
            bytes_field(_CONTENT_TYPE, b""),
        )
    )


def encode_event(event: Json) -> bytes:
    """Encode an event of a watch with the length of its frame.

    Raises:
        ProtobufError: the object's kind has no protobuf encoding.
    """
    raw = bytes_field(1, encode_protobuf(event["object"]))
    frame = bytes_field(1, event["type"].encode()) + bytes_field(2, raw)
    return len(frame).to_bytes(4, "big") + frame


def _read(api_version: str, kind: str, body: bytes) -> Json:
    if not _is_list(kind):
        return read_message(_type(api_version, kind), body)
    item_type = _type(api_version, kind.removesuffix(_LIST))
    metadata: Json = {}
    items: list[Json] = []
    for number, value in read_fields(body):
        if number == _LIST_METADATA:
            metadata = read_message("ListMeta", bytes_of(value))
        elif number == _ITEMS:
            items.append(read_message(item_type, bytes_of(value)))
    return {"metadata": metadata, "items": items}


def _write(api_version: str, kind: str, object_: Json) -> bytes:
    if not _is_list(kind):
        return write_message(_type(api_version, kind), object_)
    item_type = _type(api_version, kind.removesuffix(_LIST))
    metadata = write_message("ListMeta", object_.get("metadata") or {})
    items = cast("list[Json]", object_.get("items") or [])
    return bytes_field(_LIST_METADATA, metadata) + b"".join(
        bytes_field(_ITEMS, write_message(item_type, item)) for item in items
    )


def _is_list(kind: str) -> bool:
    return kind.endswith(_LIST) and kind not in table()


def _type(api_version: str, kind: str) -> str:
    type_ = _TYPES.get((api_version, kind), kind)
    if type_ not in table():
        raise ProtobufError(f"{kind or 'an object without a kind'} has no protobuf encoding")
    return type_
