"""Typed decoding of built-in kinds: refuses wrong types, finds and drops unknown fields."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from controller.devcluster.apiserver.fields.field_table import ANY, Field, table
from controller.devcluster.apiserver.quantity import QuantityError, canonical_quantity

if TYPE_CHECKING:
    from controller.devcluster.apiserver.jsondata import Json

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_INTEGERS = {"int32": 31, "int64": 63}
_NO_BASE64 = re.compile(r"[^A-Za-z0-9+/=]")
_LINE_ENDS = {ord(sign): None for sign in "\r\n"}
"""Characters that upstream skips in base64 data."""
_BLANKS = {"string": "", "int32": 0, "int64": 0, "bool": False}
_EXTERNAL = {
    "quantity": "resource.Quantity",
    "time": "v1.Time",
    "microtime": "v1.MicroTime",
    "int-or-string": "int32",
    "double": "float64",
    "bytes": "[]uint8",
}


class DecodeError(Exception):
    """A value does not fit its field.

    Attributes:
        is_type: whether it is of the wrong JSON type, rather than malformed text.
    """

    is_type = False


class JsonTypeError(DecodeError):
    """A value is of the wrong JSON type."""

    is_type = True


class Place(NamedTuple):
    """The path of a value.

    Attributes:
        type: the innermost type around it, `PodSpec`.
        path: its path without indexes, as type errors name it.
        exact: its path with indexes, as unknown fields are reported.
    """

    type: str
    path: str
    exact: str


@dataclass(slots=True)
class Decoded:
    """Findings of the decoder.

    Attributes:
        unknown: paths of unknown fields, which were dropped.
    """

    unknown: list[str] = field(default_factory=list[str])


def decode_kind(kind: str, object_: Json) -> list[str]:
    """Bring an object of a built-in kind into its typed form, in place.

    Nulls, empty optional lists and maps, and zeros that upstream leaves out are dropped; quantities
    become canonical.

    Returns:
        Paths of unknown fields, which are dropped too.

    Raises:
        DecodeError: a value has the wrong type.
    """
    decoded = Decoded()
    head = {name: object_.pop(name) for name in ("apiVersion", "kind") if name in object_}
    _decode_struct(kind, object_, Place(kind, "", ""), decoded)
    object_.update(head)
    return decoded.unknown


def decode_metadata(kind: str, object_: Json) -> list[str]:
    """Decode, like `decode_kind`, only the metadata of a custom resource.

    Raises:
        DecodeError: a value has the wrong type.
    """
    decoded = Decoded()
    place = Place(kind, "", "metadata")
    object_["metadata"] = _decode("ObjectMeta", object_["metadata"], place, decoded)
    return decoded.unknown


def _decode_struct(name: str, value: Json, place: Place, decoded: Decoded) -> Json:
    fields = table()[name]
    for key, item in list(value.items()):
        known = fields.get(key)
        if known is not None and known.type == "string" and isinstance(item, str) and item:
            continue  # as most fields are
        exact = f"{place.exact}.{key}" if place.exact else key
        if known is None:
            decoded.unknown.append(exact)
            del value[key]
            continue
        path = f"{place.path}.{key}" if place.path else key
        typed = (
            None if item is None else _decode(known.type, item, Place(name, path, exact), decoded)
        )
        is_empty = typed in ([], {}) and known.type[0] in "[{"
        if typed is None or is_empty or known.leaves_out(typed):
            del value[key]
        else:
            value[key] = typed
    for shown in _always_shown(name):
        if shown.name not in value:
            value[shown.name] = blank(shown.type)
    return value


@cache
def _always_shown(name: str) -> tuple[Field, ...]:
    return tuple(
        field
        for field in table()[name].values()
        if field.always or (field.required and field.type.startswith("["))
    )


def blank(type_: str) -> Any:
    """Return the value that upstream shows for a type when none was given."""
    if type_ in table():
        return {field.name: blank(field.type) for field in _always_shown(type_)}
    return _BLANKS.get(type_)


def blank_object(kind: str) -> Json:
    """Return upstream's empty object of a kind, without metadata, for bookmarks."""
    return {
        known.name: blank_object(known.type) if known.type in table() else blank(known.type)
        for known in table()[kind].values()
        if (known.always or known.required) and known.name != "metadata"
    }


def _decode(type_: str, value: Any, place: Place, decoded: Decoded) -> Any:
    if type_ in ANY:
        return value
    if type_[0] == "[":
        return _decode_list(type_, value, place, decoded)
    if type_[0] == "{":
        return _decode_map(type_, value, place, decoded)
    if type_ in table():
        if not isinstance(value, dict):
            raise _mismatch(type_, value, place)
        return _decode_struct(type_, cast("Json", value), place, decoded)
    return _decode_scalar(type_, value, place)


def _decode_list(type_: str, value: Any, place: Place, decoded: Decoded) -> list[Any]:
    if not isinstance(value, list):
        raise _mismatch(type_, value, place)
    return [
        _decode(type_[1:-1], item, place._replace(exact=f"{place.exact}[{index}]"), decoded)
        for index, item in enumerate(cast("list[Any]", value))
    ]


def _decode_map(type_: str, value: Any, place: Place, decoded: Decoded) -> Json:
    if not isinstance(value, dict):
        raise _mismatch(type_, value, place)
    return {
        key: _decode(type_[1:-1], item, place._replace(exact=f"{place.exact}.{key}"), decoded)
        for key, item in cast("Json", value).items()
        if item is not None
    }


def _decode_scalar(type_: str, value: Any, place: Place) -> Any:
    if type_ == "quantity":
        return _decode_quantity(value, place)
    if not _fits(type_, value):
        raise _mismatch(type_, value, place)
    if type_ in {"time", "microtime"} and not _TIME.fullmatch(str(value)):
        raise DecodeError(
            f'parsing time "{value}" as "2006-01-02T15:04:05Z07:00": '
            f'cannot parse "{value}" as "2006"'
        )
    if type_ == "bytes":
        _check_base64(str(value))
    return value


def _fits(type_: str, value: Any) -> bool:
    if isinstance(value, bool):
        return type_ == "bool"
    if type_ in _INTEGERS:
        bound = 1 << _INTEGERS[type_]
        return isinstance(value, int) and -bound <= value < bound
    wanted = {"double": (int, float), "int-or-string": (int, str), "bool": bool}
    return isinstance(value, wanted.get(type_, str))


def _decode_quantity(value: Any, place: Place) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise _mismatch("quantity", value, place)
    try:
        return canonical_quantity(value)
    except QuantityError as error:
        raise DecodeError(str(error)) from None


def _check_base64(value: str) -> None:
    text = value.translate(_LINE_ENDS)
    try:
        base64.b64decode(text, validate=True)
    except binascii.Error:
        wrong = _NO_BASE64.search(text)
        at = wrong.start() if wrong else len(text) - len(text) % 4
        raise DecodeError(f"illegal base64 data at input byte {at}") from None


def _mismatch(type_: str, value: Any, place: Place) -> DecodeError:
    return JsonTypeError(
        f"json: cannot unmarshal {_found(type_, value)} into Go struct field "
        f"{place.type}.{place.path} of type {_external(type_)}"
    )


def json_type(value: Any) -> str:
    """Return the name of a value's type in error messages."""
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def _found(type_: str, value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (int, float)):
        return f"number {value}" if type_ in _INTEGERS else "number"
    return json_type(value)


def _external(type_: str) -> str:
    """Return a type as upstream's error messages name it."""
    if type_[0] == "[":
        return "[]" + _external(type_[1:-1])
    if type_[0] == "{":
        return "map[string]" + _external(type_[1:-1])
    if type_ in table():
        return f"v1.{type_}"
    return _EXTERNAL.get(type_, type_)
