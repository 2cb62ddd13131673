"""The types that Kubernetes builds in: their fields, and the decoding of values by them.

`fields.txt` lists the fields of each type as `name=type`. Types are scalars, names of other types,
`[T]` for lists and `{T}` for maps with string keys. After the type may follow `/key` (strategic
merge patch merges the list by that key, or as a set if the key is empty), `(keys)` (the list is a
map by these keys, or a set), `~` (a patch may retain keys), `!` (required), `+` (upstream shows
the field even if it is empty) and `*` (Go's JSON has the field even if it is zero). `#` precedes
the field's number in protobuf; `#2.4` is field 4 of the message in field 2, which JSON inlines.
"""

from __future__ import annotations

import base64
import binascii
import re
from functools import cache
from importlib import resources
from typing import Any, NamedTuple, cast

from msgspec import Struct

from controller.apimachinery.quantity import InvalidQuantity, parse_quantity
from devcluster.apiserver.objects import Json

_FIELD = re.compile(
    r"(?P<name>[^=]+)=(?P<type>[^/(~!+*#]+)(?P<merge>/(?P<merge_key>\w*))?"
    r"(?P<map>\((?P<map_keys>[\w,]*)\))?~?(?P<required>!)?(?P<always>\+)?"
    r"(?P<keeps_zero>\*)?#(?P<numbers>[\d.]+)"
)

ANY = frozenset({"any", "schema-or-bool", "schema-or-schemas", "schema-or-strings"})
"""Scalar types that are any JSON; those of schemas have protobuf messages of their own."""
_LEFT_OUT_IF_ZERO = frozenset({"bool", "bytes", "double", "int32", "int64", "string"})


class Field(Struct, frozen=True):
    """One field of a type.

    Attributes:
        merge_key: the key by which patches merge the list; empty for a set of scalars, None for
            fields that patches replace.
        map_keys: the keys by which server-side apply merges the list; None for others.
        required: whether it must be given; empty lists are then shown as null.
        always: whether it is shown even if it was not given.
        numbers: its number in protobuf, after those of the inlined messages around it.
        keeps_zero: whether a zero is a value of its own, rather than the lack of one.
    """

    name: str
    type: str
    numbers: tuple[int, ...] = ()
    merge_key: str | None = None
    map_keys: tuple[str, ...] | None = None
    required: bool = False
    always: bool = False
    keeps_zero: bool = False

    def leaves_out(self, value: Any) -> bool:
        """Return whether upstream leaves a value of this field out of JSON, because it is zero."""
        return not value and not self.keeps_zero and self.type in _LEFT_OUT_IF_ZERO


@cache
def table() -> dict[str, dict[str, Field]]:
    """Return the fields by type and name."""
    text = (
        resources.files("devcluster.apiserver").joinpath("fields.txt").read_text(encoding="utf-8")
    )
    types: dict[str, dict[str, Field]] = {}
    current: dict[str, Field] = {}
    for word in re.sub(r"^#.*", "", text).split():
        if word.endswith(":"):
            current = types[word[:-1]] = {}
        else:
            parsed = _parse_field(word)
            current[parsed.name] = parsed
    return types


def _parse_field(text: str) -> Field:
    match = _FIELD.fullmatch(text)
    assert match is not None, text
    merge_key = match["merge_key"] if match["merge"] else None
    map_keys = tuple(filter(None, match["map_keys"].split(","))) if match["map"] else None
    if map_keys is None and merge_key is not None:
        map_keys = (merge_key,) if merge_key else ()
    return Field(
        match["name"],
        match["type"],
        tuple(map(int, match["numbers"].split("."))),
        merge_key,
        map_keys,
        required=bool(match["required"]),
        always=bool(match["always"]),
        keeps_zero=bool(match["keeps_zero"]),
    )


_QUANTITY_RULE = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
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


def decode_kind(kind: str, object_: Json) -> list[str]:
    """Bring an object of a built-in kind into its typed form, in place.

    Nulls, empty optional lists and maps, and zeros that upstream leaves out are dropped; quantities
    become canonical.

    Returns:
        Paths of unknown fields, which are dropped too.

    Raises:
        DecodeError: a value has the wrong type.
    """
    unknown: list[str] = []
    head = {name: object_.pop(name) for name in ("apiVersion", "kind") if name in object_}
    _decode_struct(kind, object_, Place(kind, "", ""), unknown)
    object_.update(head)
    return unknown


def decode_metadata(kind: str, object_: Json) -> list[str]:
    """Decode, like `decode_kind`, only the metadata of a custom resource.

    Raises:
        DecodeError: a value has the wrong type.
    """
    unknown: list[str] = []
    place = Place(kind, "", "metadata")
    object_["metadata"] = _decode("ObjectMeta", object_["metadata"], place, unknown)
    return unknown


def _decode_struct(name: str, value: Json, place: Place, unknown: list[str]) -> Json:
    fields = table()[name]
    for key, item in list(value.items()):
        known = fields.get(key)
        if known is not None and known.type == "string" and isinstance(item, str) and item:
            continue  # as most fields are
        exact = f"{place.exact}.{key}" if place.exact else key
        if known is None:
            unknown.append(exact)
            del value[key]
            continue
        path = f"{place.path}.{key}" if place.path else key
        typed = (
            None if item is None else _decode(known.type, item, Place(name, path, exact), unknown)
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


def _decode(type_: str, value: Any, place: Place, unknown: list[str]) -> Any:
    if type_ in ANY:
        return value
    if type_[0] == "[":
        return _decode_list(type_, value, place, unknown)
    if type_[0] == "{":
        return _decode_map(type_, value, place, unknown)
    if type_ in table():
        if not isinstance(value, dict):
            raise _mismatch(type_, value, place)
        return _decode_struct(type_, cast("Json", value), place, unknown)
    return _decode_scalar(type_, value, place)


def _decode_list(type_: str, value: Any, place: Place, unknown: list[str]) -> list[Any]:
    if not isinstance(value, list):
        raise _mismatch(type_, value, place)
    return [
        _decode(type_[1:-1], item, place._replace(exact=f"{place.exact}[{index}]"), unknown)
        for index, item in enumerate(cast("list[Any]", value))
    ]


def _decode_map(type_: str, value: Any, place: Place, unknown: list[str]) -> Json:
    if not isinstance(value, dict):
        raise _mismatch(type_, value, place)
    return {
        key: _decode(type_[1:-1], item, place._replace(exact=f"{place.exact}.{key}"), unknown)
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
        return str(parse_quantity(value))
    except InvalidQuantity:
        raise DecodeError(_QUANTITY_RULE) from None


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
