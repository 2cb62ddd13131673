"""Messages of built-in types, as JSON and in protobuf, by the table of fields.

Decoding gives what Go's `encoding/json` would write for the same value: Go sends the zero values
of all fields that are not pointers, and leaves most of them out of JSON.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from controller.devcluster.apiserver.fields.field_table import table
from controller.devcluster.apiserver.protobuf.scalars import (
    INTEGERS,
    READERS,
    WRITERS,
    bytes_of,
    text_of,
)
from controller.devcluster.apiserver.protobuf.wire import (
    ProtobufError,
    bytes_field,
    read_fields,
    read_varints,
    signed,
    varint_field,
)

if TYPE_CHECKING:
    from controller.devcluster.apiserver.fields.field_table import Field
    from controller.devcluster.apiserver.jsondata import Json

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
