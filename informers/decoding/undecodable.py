"""What is known of an object that cannot be decoded: its metadata, and the reason.

Nothing else of it is used: a field that is left out would look like a default, for which a planner
might delete something. Plain data that is nested so deeply that recursive code might fail counts as
undecodable too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from informers.decoding.json_scanner import Unbalanced, split_json
from informers.events import Undecodable
from informers.objects import object_key

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_DEPTH: Final = 100
"""Maximum levels of plain data in one field. Pod templates have about 15; a Python program can
recurse through several hundred."""

NAMELESS: Final = Undecodable(key="", uid="", revision="", reason="an object without a name")
TOO_DEEP: Final = f"nested too deeply, at most {MAX_DEPTH} levels are possible"
_CONTAINERS: Final = (dict, list)
_LONGEST: Final = 1000
"""Maximum characters of a reason; keys and messages may be of any length."""


class _Identity(msgspec.Struct, rename="camel"):
    """The part of metadata without which an object cannot even be named."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


_identity = msgspec.json.Decoder(_Identity)


def describe(
    raw: bytes, error: Exception, metadata_decoder: msgspec.json.Decoder[Any]
) -> Undecodable:
    """Return what is known of an object that was refused with this error.

    Args:
        raw: the object.
        error: of the decoder, or of `too_deep`.
        metadata_decoder: decodes its metadata.
    """
    try:
        metadata = dict(split_json(raw)).get("metadata", b"")
    except Unbalanced as unbalanced:
        return Undecodable(key="", uid="", revision="", reason=f"{error} ({unbalanced})")
    found = _decoded(metadata, metadata_decoder)
    if found is None and (identity := _decoded(metadata, _identity)) is not None:
        found = metadata_decoder.type(**msgspec.structs.asdict(identity))
    if found is None or not found.name:
        return replace(NAMELESS, reason=f"{NAMELESS.reason}: {_reason(error)}")
    key = object_key(found.namespace, found.name)
    return Undecodable(key, found.uid, found.resource_version, _reason(error), metadata=found)


def _decoded(raw: bytes, decoder: msgspec.json.Decoder[Any]) -> Any:
    try:
        return decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _reason(error: Exception) -> str:
    """Return field and problem, as far as the decoder names the field."""
    if isinstance(error, RecursionError):
        return TOO_DEEP
    problem, _, field = str(error).partition(" - at `$.")
    return (f"{field.rstrip('`')}: {problem}" if field else problem)[:_LONGEST]


def too_deep(obj: Any, plain: Iterable[str]) -> ValueError | None:
    """Return an error if one of these fields of plain data exceeds `MAX_DEPTH`, else None."""
    deep = next((name for name in plain if _exceeds(getattr(obj, name), MAX_DEPTH)), "")
    return ValueError(f"{deep}: {TOO_DEEP}") if deep else None


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
