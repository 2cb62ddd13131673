"""The protobuf encoding of built-in kinds, which Go clients speak by default.

Only the encoding differs: requests are decoded into the JSON that the same Go type would give,
and answers are encoded from it. Custom resources have no protobuf encoding, as upstream.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from controller.devcluster.apiserver.builtin_types import table
from controller.devcluster.apiserver.protobuf_wire import (
    INTEGERS,
    READERS,
    WRITERS,
    ProtobufError,
    bytes_field,
    bytes_of,
    read_fields,
    read_varints,
    signed,
    text_of,
    varint_field,
)

if TYPE_CHECKING:
    from controller.devcluster.apiserver.builtin_types import Field
    from controller.devcluster.apiserver.objects import Json


_KEY, _VALUE = 1, 2
"""Fields of a map's entry."""
_SCHEMA = "JSONSchemaProps"


@dataclass(frozen=True, slots=True)
class _Members:
    """The fields of a message, and the messages in it whose fields JSON inlines, by number."""

    fields: dict[int, Field] = field(default_factory=dict[int, "Field"])
    inlined: dict[int, _Members] = field(default_factory=dict[int, "_Members"])


@cache
def _members(type_: str) -> _Members:
    message = _Members()
    for one in table()[type_].values():
        *around, number = one.numbers
        members = message
        for outer in around:
            members = members.inlined.setdefault(outer, _Members())
        members.fields[number] = one
    return message


def read_message(type_: str, body: bytes) -> Json:
    """Decode a message of a type of the table; unknown fields are skipped.

    Raises:
        ProtobufError: the message is malformed.
        RecursionError: it is nested too deeply.
    """
    result: Json = {}
    _read_into(result, _members(type_), body)
    return result


def _read_into(result: Json, members: _Members, body: bytes) -> None:
    for number, value in read_fields(body):
        if inlined := members.inlined.get(number):
            _read_into(result, inlined, bytes_of(value))
        elif known := members.fields.get(number):
            _read_field(result, known, value)


def _read_field(result: Json, known: Field, value: int | bytes) -> None:
    inner = known.type[1:-1]
    match known.type[0]:
        case "[":
            result.setdefault(known.name, []).extend(_read_items(inner, value))
        case "{":
            entry = dict(read_fields(bytes_of(value)))
            key = text_of(entry.get(_KEY, b""))
            result.setdefault(known.name, {})[key] = _read_value(inner, entry.get(_VALUE, b""))
        case _:
            read = _read_value(known.type, value)
            if read is not None and not known.leaves_out(read):
                result[known.name] = read


def _read_items(type_: str, value: int | bytes) -> list[Any]:
    if type_ in INTEGERS and isinstance(value, bytes):
        return [signed(number) for number in read_varints(value)]
    return [_read_value(type_, value)]


def _read_value(type_: str, value: int | bytes) -> Any:
    if type_ in table():
        return read_message(type_, bytes_of(value))
    if type_[0] == "[":  # a list inside of a map is a message with its items
        return [_read_value(type_[1:-1], item) for _, item in read_fields(bytes_of(value))]
    if type_.startswith("schema-or-"):
        return _read_schema_or_other(type_, bytes_of(value))
    return READERS[type_](value)


def _read_schema_or_other(type_: str, body: bytes) -> Any:
    found: dict[int, list[int | bytes]] = {1: [], 2: []}
    for number, value in read_fields(body):
        found.setdefault(number, []).append(value)
    match type_:
        case "schema-or-bool":
            schemas, others = found[2], [bool(value) for value in found[1]] or [False]
            return _read_value(_SCHEMA, schemas[-1]) if schemas else others[-1]
        case "schema-or-schemas":
            others = [_read_value(_SCHEMA, item) for item in found[2]]
        case _:
            others = [text_of(item) for item in found[2]]
    if others or not found[1]:
        return others or None
    return _read_value(_SCHEMA, found[1][-1])


def write_message(type_: str, value: Json) -> bytes:
    """Encode a message of a type of the table.

    Raises:
        ProtobufError: a value does not fit its field.
        RecursionError: it is nested too deeply.
    """
    return _write_members(_members(type_), value)


def _write_members(members: _Members, value: Json) -> bytes:
    written = {
        number: bytes_field(number, _write_members(inlined, value))
        for number, inlined in members.inlined.items()
    }
    for number, known in members.fields.items():
        if (item := value.get(known.name)) is not None:
            written[number] = _write_field(known.type, number, item)
    return b"".join(written[number] for number in sorted(written))


def _write_field(type_: str, number: int, value: Any) -> bytes:
    inner = type_[1:-1]
    match type_[0]:
        case "[":
            return b"".join(_write_value(inner, number, item) for item in value)
        case "{":
            entries = cast("Json", value).items()
            return b"".join(
                bytes_field(
                    number, bytes_field(_KEY, key.encode()) + _write_value(inner, _VALUE, item)
                )
                for key, item in entries
            )
        case _:
            return _write_value(type_, number, value)


def _write_value(type_: str, number: int, value: Any) -> bytes:
    if value is None:  # in a map or a list: a zero time
        return bytes_field(number, b"")
    if type_ in table():
        return bytes_field(number, write_message(type_, value))
    if type_[0] == "[":
        return bytes_field(number, _write_field(type_, 1, value))
    if type_.startswith("schema-or-"):
        return bytes_field(number, _write_schema_or_other(type_, value))
    try:
        return WRITERS[type_](number, value)
    except (TypeError, ValueError, AttributeError) as error:
        raise ProtobufError(f"{value!r} is no {type_}: {error}") from error


def _write_schema_or_other(type_: str, value: Any) -> bytes:
    if type_ == "schema-or-bool":
        if isinstance(value, bool):
            return varint_field(1, value)
        return varint_field(1, value=True) + bytes_field(2, write_message(_SCHEMA, value))
    if isinstance(value, list):
        inner = _SCHEMA if type_ == "schema-or-schemas" else "string"
        return _write_field(f"[{inner}]", 2, value)
    return bytes_field(1, write_message(_SCHEMA, value))


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
