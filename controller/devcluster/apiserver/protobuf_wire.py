"""Protobuf's wire format: numbered fields of four wire types, and scalars in them."""

from __future__ import annotations

import base64
import struct
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from controller.devcluster.apiserver.objects import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


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


def varint_field(number: int, value: int) -> bytes:
    """Encode a field with an integer, which may be negative, or a boolean."""
    return _varint(number << 3 | VARINT) + _varint(value & _UINT64)


def bytes_field(number: int, value: bytes) -> bytes:
    """Encode a field with a string, bytes or a message."""
    return _varint(number << 3 | BYTES) + _varint(len(value)) + value


def double_field(number: int, value: float) -> bytes:
    """Encode a field with a floating-point number."""
    return _varint(number << 3 | FIXED64) + struct.pack("<d", value)


def read_double(value: bytes) -> float:
    """Decode a floating-point number.

    Raises:
        ProtobufError: the field has another wire type.
    """
    if len(value) != _FIXED_SIZES[FIXED64]:
        raise ProtobufError("a floating-point number has 8 bytes")
    return struct.unpack("<d", value)[0]


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


INTEGERS = frozenset({"int32", "int64"})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NANOSECONDS = 10**9
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


def _write_time(value: str) -> bytes:
    since = datetime.fromisoformat(value) - _EPOCH
    seconds = since.days * 86400 + since.seconds
    return varint_field(1, seconds) + varint_field(
        2, since.microseconds * (_NANOSECONDS // 1_000_000)
    )


def _read_quantity(value: int | bytes) -> str:
    return next(
        (text_of(item) for number, item in read_fields(bytes_of(value)) if number == 1), "0"
    )


def _read_int_or_string(value: int | bytes) -> int | str:
    found = dict(read_fields(bytes_of(value)))
    if found.get(1, _AN_INTEGER) == _A_STRING:
        return text_of(found.get(3, b""))
    return _integer_of(found.get(2, 0))


def _write_int_or_string(value: int | str) -> bytes:
    if isinstance(value, str):
        return varint_field(1, _A_STRING) + varint_field(2, 0) + bytes_field(3, value.encode())
    return varint_field(1, _AN_INTEGER) + varint_field(2, value) + bytes_field(3, b"")


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

WRITERS: dict[str, Callable[[int, Any], bytes]] = {
    "any": lambda number, value: bytes_field(number, bytes_field(1, encode(value))),
    "bool": varint_field,
    "bytes": lambda number, value: bytes_field(number, base64.b64decode(value)),
    "double": double_field,
    "int-or-string": lambda number, value: bytes_field(number, _write_int_or_string(value)),
    "int32": varint_field,
    "int64": varint_field,
    "microtime": lambda number, value: bytes_field(number, _write_time(value)),
    "quantity": lambda number, value: bytes_field(number, bytes_field(1, value.encode())),
    "string": lambda number, value: bytes_field(number, value.encode()),
    "time": lambda number, value: bytes_field(number, _write_time(value)),
}
"""Functions by type that return the wire form of a field's number and JSON value."""
