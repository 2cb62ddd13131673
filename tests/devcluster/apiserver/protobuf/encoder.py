"""Kubernetes protobuf as Go clients write it: the other half of the embedded server's decoder."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, cast

from devcluster.apiserver.builtin_types import table
from devcluster.apiserver.objects import Json, encode

_KEY, _VALUE = 1, 2
_SCHEMA = "JSONSchemaProps"
_UINT64 = (1 << 64) - 1
_VARINT, _FIXED64, _BYTES = 0, 1, 2
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def varint_field(number: int, value: int) -> bytes:
    """Encode a field with an integer, which may be negative, or a boolean."""
    return _varint(number << 3 | _VARINT) + _varint(value & _UINT64)


def bytes_field(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(value)) + value


def double_field(number: int, value: float) -> bytes:
    return _varint(number << 3 | _FIXED64) + struct.pack("<d", value)


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _write_time(value: str) -> bytes:
    since = datetime.fromisoformat(value) - _EPOCH
    seconds = since.days * 86400 + since.seconds
    return varint_field(1, seconds) + varint_field(2, since.microseconds * 1000)


def _write_int_or_string(value: int | str) -> bytes:
    if isinstance(value, str):
        return varint_field(1, 1) + varint_field(2, 0) + bytes_field(3, value.encode())
    return varint_field(1, 0) + varint_field(2, value) + bytes_field(3, b"")


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


def write_message(type_: str, value: Json) -> bytes:
    written: dict[int, bytes] = {}
    inlined: dict[int, list[tuple[int, bytes]]] = {}
    for known in table()[type_].values():
        if (item := value.get(known.name)) is None:
            continue
        *around, number = known.numbers
        encoded = _write_field(known.type, number, item)
        if around:
            inlined.setdefault(around[0], []).append((number, encoded))
        else:
            written[number] = encoded
    for outer, parts in inlined.items():
        written[outer] = bytes_field(outer, b"".join(encoded for _, encoded in sorted(parts)))
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
    return WRITERS[type_](number, value)


def _write_schema_or_other(type_: str, value: Any) -> bytes:
    if type_ == "schema-or-bool":
        if isinstance(value, bool):
            return varint_field(1, value)
        return varint_field(1, value=True) + bytes_field(2, write_message(_SCHEMA, value))
    if isinstance(value, list):
        inner = _SCHEMA if type_ == "schema-or-schemas" else "string"
        return _write_field(f"[{inner}]", 2, value)
    return bytes_field(1, write_message(_SCHEMA, value))


def encode_protobuf(object_: Json) -> bytes:
    kind, api_version = str(object_.get("kind", "")), str(object_.get("apiVersion", ""))
    type_meta = bytes_field(1, api_version.encode()) + bytes_field(2, kind.encode())
    type_ = "EventsEvent" if (api_version, kind) == ("events.k8s.io/v1", "Event") else kind
    raw = write_message(type_, object_)
    parts = enumerate((type_meta, raw, b"", b""), 1)
    return b"k8s\x00" + b"".join(bytes_field(number, part) for number, part in parts)
