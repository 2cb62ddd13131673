"""Protobuf's wire format: numbered fields of four wire types.

Numbers are returned as they were sent, unsigned; lengths and ends are checked.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

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
