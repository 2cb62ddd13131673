"""Decodes an object field by field where the whole cannot be decoded.

Metadata is decoded even where nothing else is, so that an object of any shape can be named and
attributed to its owner. A field is refused if it does not fit its type, or if it holds plain data
nested so deeply that recursive code might fail.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Generic, cast

import msgspec

from informers.decoding.json_scanner import Unbalanced, path_below, split_json
from informers.events import Undecodable
from informers.objects import ApiObject, Metadata, T, object_key

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_DEPTH: Final = 100
"""Maximum levels of plain data in one field. Pod templates have about 15; a Python program can
recurse through several hundred."""

PARTIAL_FIELD: Final = "undecodable"
"""Field of types that can hold a part of an object: the problems of the fields that are left out.
"""

NAMELESS: Final = "an object without a name"
_TOO_DEEP: Final = "nested too deeply"
_CONTAINERS: Final = (dict, list)
_LONGEST: Final = 1000
"""Maximum characters of one problem's description; keys and messages may be of any length."""


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of a Struct type."""

    name: str
    encoded: str
    decoder: msgspec.json.Decoder[Any]


class Salvage(Generic[T]):
    """Decodes what can be decoded of objects of one type.

    Args:
        view: Struct type of the objects. If it has a field `undecodable: str`, an object without
            the fields that do not fit is given in `Undecodable.partial`, with their problems there.
    """

    def __init__(self, view: type[T]) -> None:
        self._view: Any = view
        fields = msgspec.structs.fields(cast("type[msgspec.Struct]", view))
        self._metadata_view: Any = next(f.type for f in fields if f.name == "metadata")
        self._holds_parts = any(field.name == PARTIAL_FIELD for field in fields)
        self._plain = tuple(field.name for field in fields if field.type is Any)

    def nests_too_deeply(self, obj: T) -> bool:
        """Return whether a field of plain data of a decoded object exceeds `MAX_DEPTH`."""
        return any(_exceeds(getattr(obj, name), MAX_DEPTH) for name in self._plain)

    def decode(self, raw: bytes, reason: str = "") -> T | Undecodable:
        """Decode an object that could not be decoded as a whole, for `reason`.

        The result is complete if the fault lies in fields that the type does not have.
        """
        try:
            members = dict(split_json(raw))
            metadata, problems = self._metadata(members.get("metadata", b""))
        except Unbalanced as error:
            return Undecodable(key="", uid="", revision="", reason=f"{reason} ({error})")
        if metadata is None or not metadata.name:
            reason = "; ".join([NAMELESS, *problems])
            return Undecodable(key="", uid="", revision="", reason=reason)
        fields, others = _decode_fields(self._fields, members)
        problems += others
        if not problems:
            return self._view(metadata=metadata, **fields)
        reason = "; ".join(problems)
        key, partial = object_key(metadata.namespace, metadata.name), None
        if self._holds_parts:
            partial = self._view(metadata=metadata, **fields, **{PARTIAL_FIELD: reason})
        return Undecodable(
            key,
            metadata.uid,
            metadata.resource_version,
            reason,
            metadata=metadata,
            partial=cast("ApiObject | None", partial),
        )

    def _metadata(self, raw: bytes) -> tuple[Metadata | None, list[str]]:
        """Decode `metadata`, field by field if need be."""
        if not raw.startswith(b"{"):
            return None, []
        fields, problems = _decode_fields(self._metadata_fields, dict(split_json(raw)))
        return self._metadata_view(**fields), [f"metadata.{problem}" for problem in problems]

    @cached_property
    def _fields(self) -> tuple[_Field, ...]:
        """The fields besides the metadata. Their decoders are made when they are first needed."""
        return tuple(_fields_of(self._view, leave_out={"metadata", PARTIAL_FIELD}))

    @cached_property
    def _metadata_fields(self) -> tuple[_Field, ...]:
        return tuple(_fields_of(self._metadata_view))


def _fields_of(view: type[msgspec.Struct], *, leave_out: Iterable[str] = ()) -> Iterable[_Field]:
    for field in msgspec.structs.fields(view):
        if field.name not in leave_out:
            yield _Field(field.name, field.encode_name, msgspec.json.Decoder(field.type))


def _decode_fields(
    fields: Iterable[_Field], members: dict[str, bytes]
) -> tuple[dict[str, Any], list[str]]:
    """Decode each field by itself; return the values and the problems of the others.

    A field of plain data keeps its members that have no problem.
    """
    values: dict[str, Any] = {}
    problems: list[str] = []
    for field in fields:
        raw = members.get(field.encoded)
        if raw is None:
            continue
        problem = _problem(raw, field.decoder)
        if not problem:
            values[field.name] = field.decoder.decode(raw)
            continue
        problems.append(f"{field.encoded}{problem}")
        if field.decoder.type is Any and raw.startswith(b"{"):
            values[field.name] = {
                name: _ANYTHING.decode(part)
                for name, part in split_json(raw)
                if not _problem(part, _ANYTHING)
            }
    return values, problems


_ANYTHING: Final = msgspec.json.Decoder(Any)


def _problem(raw: bytes, decoder: msgspec.json.Decoder[Any]) -> str:
    """Return the first problem of the value with its path, `.template: ...`; empty without one.

    Raises:
        Unbalanced: strings or brackets of the value are not closed.
    """
    message = _error(raw, decoder)
    plain = decoder.type is Any
    if plain or message == _TOO_DEEP:
        deep = path_below(raw, MAX_DEPTH)
        if deep is not None:
            return f"{_under(deep)}: nested too deeply, at most {MAX_DEPTH} levels are possible"
    if not message:
        return ""
    text, _, path = message.partition(" - at `$")
    return f"{_path_of_fault(raw) if plain else path.rstrip('`')}: {text}"[:_LONGEST]


def _error(raw: bytes, decoder: msgspec.json.Decoder[Any]) -> str:
    """Return why the decoder refuses the value, empty if it does not."""
    try:
        decoder.decode(raw)
    except RecursionError:
        return _TOO_DEEP
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return str(error)
    return ""


def _path_of_fault(raw: bytes) -> str:
    """Return the path of the first value of plain data that cannot be decoded, down to its leaf."""
    path = ""
    while raw[:1] in {b"{", b"["}:
        faulty = (
            (f".{name}" if name else f"[{position}]", part)
            for position, (name, part) in enumerate(split_json(raw))
            if _error(part, _ANYTHING)
        )
        step, raw = next(faulty, ("", b""))
        path += step
    return path


def _under(path: str) -> str:
    return path if not path or path.startswith("[") else f".{path}"


def _exceeds(value: Any, limit: int) -> bool:
    """Return whether plain data has more levels. Visits all containers of one level at a time."""
    level: list[Any] = [value] if isinstance(value, _CONTAINERS) else []
    for _ in range(limit):
        if not level:
            return False
        level = [
            child for each in level for child in _members(each) if isinstance(child, _CONTAINERS)
        ]
    return bool(level)


def _members(container: Any) -> Iterable[Any]:
    if isinstance(container, dict):
        return cast("dict[str, Any]", container).values()
    return cast("list[Any]", container)
