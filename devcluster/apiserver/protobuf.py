"""Bodies of requests in protobuf, in which controller-runtime sends objects of built-in kinds.

They are decoded into the JSON that the same Go type would give. Answers are JSON, which every Go
client accepts too. Custom resources have no protobuf encoding, as upstream.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import msgspec

from devcluster.apiserver.builtin_types import Field, table
from devcluster.apiserver.objects import Json

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_FIXED_SIZES = {FIXED64: 8, FIXED32: 4}
_LONGEST_VARINT = 10
_UINT64 = (1 << 64) - 1


class ProtobufError(ValueError):
    """The body is malformed, or of a kind that has no protobuf encoding."""


def read_fields(body: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field, in the order of the message.

    Raises:
        ProtobufError: the message is malformed.
    """
    position = 0
    while position < len(body):
        tag, position = _read_varint(body, position)
        wire_type = tag & 7
        if wire_type == VARINT:
            value, position = _read_varint(body, position)
            yield tag >> 3, value
            continue
        if wire_type == BYTES:
            size, position = _read_varint(body, position)
        elif wire_type in _FIXED_SIZES:
            size = _FIXED_SIZES[wire_type]
        else:
            raise ProtobufError(f"wire type {wire_type} is not supported")
        if position + size > len(body):
            raise ProtobufError("unexpected end of message")
        yield tag >> 3, body[position : position + size]
        position += size


def read_varints(body: bytes) -> list[int]:
    """Return the numbers of a packed list.

    Raises:
        ProtobufError: the list is malformed.
    """
    numbers: list[int] = []
    position = 0
    while position < len(body):
        number, position = _read_varint(body, position)
        numbers.append(number)
    return numbers


def _read_varint(body: bytes, position: int) -> tuple[int, int]:
    result = 0
    for index in range(_LONGEST_VARINT):
        if position >= len(body):
            raise ProtobufError("unexpected end of message")
        byte = body[position]
        result |= (byte & 0x7F) << (7 * index)
        position += 1
        if byte < 0x80:
            return result & _UINT64, position
    raise ProtobufError("a number is too long")


def signed(number: int) -> int:
    """Return a number as a 64-bit integer with sign."""
    return number - (1 << 64) if number >> 63 else number


def read_double(value: bytes) -> float:
    """Decode a floating-point number.

    Raises:
        ProtobufError: the field has another wire type.
    """
    if len(value) != _FIXED_SIZES[FIXED64]:
        raise ProtobufError("a floating-point number has 8 bytes")
    return struct.unpack("<d", value)[0]


INTEGERS = frozenset({"int32", "int64"})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_AN_INTEGER, _A_STRING = 0, 1
"""The type tags of an int-or-string."""


def bytes_of(value: int | bytes) -> bytes:
    """Return the value of a field that must have a length.

    Raises:
        ProtobufError: it is a number.
    """
    if isinstance(value, int):
        raise ProtobufError("a number where a string or a message belongs")
    return value


def text_of(value: int | bytes) -> str:
    """Return the value of a string field.

    Raises:
        ProtobufError: it is a number, or not UTF-8.
    """
    try:
        return bytes_of(value).decode()
    except UnicodeDecodeError as error:
        raise ProtobufError(f"a string is not UTF-8: {error}") from None


def _integer_of(value: int | bytes) -> int:
    if isinstance(value, bytes):
        raise ProtobufError("a string or a message where a number belongs")
    return signed(value)


def _read_moment(value: int | bytes) -> datetime | None:
    """Return the moment in a Timestamp; None if it is zero."""
    found = {number: _integer_of(item) for number, item in read_fields(bytes_of(value))}
    seconds, nanoseconds = found.get(1, 0), found.get(2, 0)
    if not seconds and not nanoseconds:
        return None
    try:
        return _EPOCH + timedelta(seconds=seconds, microseconds=nanoseconds // 1000)
    except OverflowError:
        raise ProtobufError(f"the time {seconds} is out of range") from None


def _read_time(value: int | bytes) -> str | None:
    moment = _read_moment(value)
    return moment and moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _read_microtime(value: int | bytes) -> str | None:
    moment = _read_moment(value)
    return moment and moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _read_quantity(value: int | bytes) -> str:
    return next(
        (text_of(item) for number, item in read_fields(bytes_of(value)) if number == 1), "0"
    )


def _read_int_or_string(value: int | bytes) -> int | str:
    found = dict(read_fields(bytes_of(value)))
    if found.get(1, _AN_INTEGER) == _A_STRING:
        return text_of(found.get(3, b""))
    return _integer_of(found.get(2, 0))


def _read_any(value: int | bytes) -> Any:
    raw = next((item for number, item in read_fields(bytes_of(value)) if number == 1), b"")
    try:
        return msgspec.json.decode(bytes_of(raw)) if raw else None
    except msgspec.DecodeError as error:
        raise ProtobufError(f"JSON inside of protobuf is malformed: {error}") from None


READERS: dict[str, Callable[[int | bytes], Any]] = {
    "any": _read_any,
    "bool": lambda value: bool(_integer_of(value)),
    "bytes": lambda value: base64.b64encode(bytes_of(value)).decode(),
    "double": lambda value: read_double(bytes_of(value)),
    "int-or-string": _read_int_or_string,
    "int32": _integer_of,
    "int64": _integer_of,
    "microtime": _read_microtime,
    "quantity": _read_quantity,
    "string": text_of,
    "time": _read_time,
}
"""Functions by type that return the JSON value of a wire value; None is JSON's null."""


_SCHEMA = "JSONSchemaProps"
_KEY, _VALUE = 1, 2
"""Fields of a map's entry."""


class _Members(msgspec.Struct, frozen=True):
    """The fields of a message, and the messages in it whose fields JSON inlines, by number."""

    fields: dict[int, Field] = msgspec.field(default_factory=dict[int, "Field"])
    inlined: dict[int, _Members] = msgspec.field(default_factory=dict[int, "_Members"])


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


MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_TYPE_META, _RAW = 1, 2
_API_VERSION, _KIND = 1, 2
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
        message = read_message(_type(api_version, kind), raw)
    except RecursionError:
        raise ProtobufError(f"{kind} is nested too deeply") from None
    return {"apiVersion": api_version, "kind": kind} | message


def _type(api_version: str, kind: str) -> str:
    type_ = _TYPES.get((api_version, kind), kind)
    if type_ not in table():
        raise ProtobufError(f"{kind or 'an object without a kind'} has no protobuf encoding")
    return type_
