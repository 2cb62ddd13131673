"""Shares equal parts of decoded objects, which saves two thirds of their memory.

A decoder creates a new string for each `"Running"` and a new tuple for each list of ports.
`sys.intern` shares strings but never frees them on newer Pythons; this pool is cleared.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from itertools import zip_longest
from types import NoneType
from typing import Any, Generic, TypeAlias, TypeVar, cast, get_args

import msgspec
from msgspec.structs import replace

from informers.decoding import NAMELESS, Unbalanced, describe, split_json, too_deep
from informers.errors import Malformed, error_from_status
from informers.store import (
    Bookmark,
    Ignored,
    Metadata,
    Page,
    Removed,
    T,
    Undecodable,
    Upserted,
    WatchEvent,
    key_of,
)

Known: TypeAlias = Callable[[str], T | None]
"""Returns the present version of an object by its key."""


def nothing(_key: str) -> None:
    """Know no earlier version of any object."""


_LIMIT = 4096
_EXACT = frozenset({str, int, float, bool, NoneType, Ellipsis})
_IDENTITY = frozenset({"name", "uid", "resource_version"})
"""Fields of `metadata` that are unique to each object."""


class InternPool:
    """Shares immutable parts among all objects passed to `share`. Cleared when full."""

    def __init__(self) -> None:
        self._parts: dict[Any, Any] = {}

    def share(self, struct: msgspec.Struct, before: msgspec.Struct | None = None) -> None:
        """Replace parts of a new frozen Struct by equal parts of earlier ones.

        First by those of its own version `before`, which are most of it. Whoever remembers one of
        them, such as the specification that was planned, then keeps no second one.
        """
        if len(self._parts) > _LIMIT:
            self._parts.clear()
        self._share_fields(struct, before)

    def _share_fields(self, struct: msgspec.Struct, before: Any = None) -> None:
        shared = self._parts.setdefault
        known = before if type(before) is type(struct) else None
        for field, is_exact in _fields_worth_sharing(type(struct)):
            value = getattr(struct, field)
            if not value:
                continue
            earlier = getattr(known, field, None)
            if value == earlier and (is_exact or _as_json(value) == _as_json(earlier)):
                found = earlier
            elif isinstance(value, msgspec.Struct):
                self._share_fields(value, earlier)
                continue
            elif isinstance(value, tuple):
                found = self._shared_tuple(cast("tuple[Any, ...]", value), earlier)
            elif isinstance(value, str):
                found = shared(value, value)
            elif isinstance(value, dict):
                found = self._shared_mapping(cast("dict[Any, Any]", value))
            else:
                continue
            if found is not value:
                msgspec.structs.force_setattr(struct, field, found)

    def _shared_tuple(self, value: tuple[Any, ...], before: Any) -> tuple[Any, ...]:
        """Return an equal earlier tuple if there is one, else this one with shared parts."""
        if not isinstance(value[0], msgspec.Struct):
            return value
        try:
            known = self._parts.setdefault(value, value)
        except TypeError:  # an element is not hashable
            known = value
        if known is value:
            for item, earlier in zip_longest(value, (before or ())[: len(value)]):
                self._share_fields(item, earlier)
        return known

    def _shared_mapping(self, value: dict[Any, Any]) -> dict[Any, Any]:
        """Return an equal dictionary with shared keys; one of texts, as labels are, is shared."""
        shared = self._parts.setdefault
        found: dict[Any, Any] = {}
        is_flat = True
        for key, item in value.items():
            if type(item) is str:
                item = shared(item, item)  # noqa: PLW2901  its shared equal
            else:
                is_flat = False
                if type(item) is dict:
                    item = self._shared_mapping(cast("dict[Any, Any]", item))  # noqa: PLW2901
            found[shared(key, key)] = item
        return shared(tuple(found.items()), found) if is_flat else found


@cache
def _fields_worth_sharing(kind: type[msgspec.Struct]) -> tuple[tuple[str, bool], ...]:
    """Return these fields, and of each whether equal values of it are always the same JSON."""
    types = _types_of_fields(kind)
    skipped = _IDENTITY if "resource_version" in types else frozenset[str]()
    return tuple(
        (name, _is_exact(type_))
        for name, type_ in types.items()
        if name not in skipped and type_ not in {int, float, bool}
    )


def _is_exact(type_: Any) -> bool:
    """Return whether no value of the type holds plain data, in which true equals 1."""
    parts = [type_]
    for part in parts:  # grows; a type may hold itself
        if isinstance(part, type) and issubclass(part, msgspec.Struct):
            parts += {*_types_of_fields(part).values()}.difference(parts)
        elif within := get_args(part):
            parts += {*within}.difference(parts)
        elif part not in _EXACT:
            return False
    return True


@cache
def _types_of_fields(kind: type[msgspec.Struct]) -> dict[str, Any]:
    return {field.name: field.type for field in msgspec.structs.fields(kind)}


# Decodes bytes into typed objects, without intermediate dictionaries.
#
# A page or an event is decoded into Structs in one pass. If that fails, it is decoded object by
# object, so that whatever an object holds does not affect the others. Bytes that are not UTF-8 are
# replaced, as in Go's decoder. Equal parts of objects are then shared in memory.

_INITIAL_EVENTS_END = "k8s.io/initial-events-end"

_Item = TypeVar("_Item")


class _Wire(msgspec.Struct, rename="camel", gc=False):
    """Parts of pages and events that exist only during decoding."""


class _ListMetadata(_Wire):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _Page(_Wire, Generic[_Item]):
    kind: str = ""
    metadata: _ListMetadata | None = None
    items: list[_Item] | None = None


class _MarkerMetadata(_Wire):
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _Marker(_Wire):
    metadata: _MarkerMetadata


class _Cause(_Wire):
    reason: str = ""
    message: str = ""


class _Details(_Wire):
    causes: list[_Cause] | None = None
    retry_after_seconds: float = 0.0


class _Status(_Wire):
    code: int = 0
    reason: str = ""
    message: str = ""
    details: _Details | None = None


class _Added(_Wire, Generic[_Item], tag_field="type", tag="ADDED"):
    object: _Item


class _Modified(_Wire, Generic[_Item], tag_field="type", tag="MODIFIED"):
    object: _Item


class _Deleted(_Wire, Generic[_Item], tag_field="type", tag="DELETED"):
    object: _Item


class _Bookmark(_Wire, tag_field="type", tag="BOOKMARK"):
    object: _Marker


class _Error(_Wire, tag_field="type", tag="ERROR"):
    object: _Status


class _Kind(_Wire):
    kind: str = ""


class _Change(_Wire):
    object: _Kind


class _Decoders(msgspec.Struct, Generic[T], frozen=True):
    """The decoders of one type. They hold no state."""

    item: msgspec.json.Decoder[T]
    page: msgspec.json.Decoder[_Page[T]]
    event: msgspec.json.Decoder[_Added[T] | _Modified[T] | _Deleted[T] | _Bookmark | _Error]
    metadata: msgspec.json.Decoder[Any]
    plain: tuple[str, ...]  # names of the fields of plain data


@cache
def _decoders(view: Any) -> _Decoders[Any]:
    """Make the decoders of a type once, for all informers of it: inspecting a type takes long."""
    fields = msgspec.structs.fields(view)
    events = _Added[view] | _Modified[view] | _Deleted[view] | _Bookmark | _Error
    return _Decoders(
        msgspec.json.Decoder(view),
        msgspec.json.Decoder(_Page[view]),
        msgspec.json.Decoder(events),
        msgspec.json.Decoder(next(field.type for field in fields if field.name == "metadata")),
        tuple(field.name for field in fields if field.type is Any),
    )


_list_metadata = msgspec.json.Decoder(_ListMetadata)
_text = msgspec.json.Decoder(str)
_as_json = msgspec.json.encode
_changed_kind = msgspec.json.Decoder(_Change)

_LEAD = re.compile(rb'\{"type":"[A-Z]+","object":\{(?:"apiVersion":"[^"\\]*",)?"kind":"([^"\\]*)"')
"""The beginning of an event as API servers write it."""

_UNDECODABLE = (msgspec.DecodeError, RecursionError)
"""Errors of a decoder, apart from bytes that are not UTF-8."""


class Codec(Generic[T]):
    """Decodes list pages and watch events of one type.

    Args:
        view: a msgspec Struct type with `metadata`; other fields, such as `managedFields`, are
            skipped.
        kind: kind of the objects; an event of another kind is skipped (INF-23). Empty for any.
        namespaced: whether the objects must have a namespace.
    """

    def __init__(
        self, view: type[T], *, kind: str = "", namespace: str = "", namespaced: bool = False
    ) -> None:
        self._kind, self._namespace, self._namespaced = kind, namespace, namespaced
        self._pool = InternPool()
        decoders = cast("_Decoders[T]", _decoders(view))
        self._metadata, self._plain = decoders.metadata, decoders.plain
        self._item, self._page, self._event = decoders.item, decoders.page, decoders.event

    def page(self, body: bytes, known: Known[T] = nothing) -> Page[T]:
        """Decode one page of a list.

        Args:
            body: a list in JSON.
            known: returns the present version of an object by its key; equal parts of the new one
                are replaced by it.

        Raises:
            Malformed: not a list with metadata, or its strings and brackets are not closed.
        """
        try:
            page = self._page.decode(body)
        except UnicodeDecodeError:
            return self.page(_valid_utf8(body), known)
        except _UNDECODABLE:
            return self._page_by_item(body, known)
        items = page.items or []
        if self._plain and any(too_deep(item, self._plain) for item in items):
            return self._page_by_item(body, known)
        objects = [self._shared(item, known) for item in items if item.metadata.name]
        nameless = tuple(NAMELESS for _ in range(len(items) - len(objects)))
        return _page_of(page.kind, page.metadata, objects, nameless)

    def event(self, line: bytes, known: Known[T] = nothing) -> WatchEvent[T]:
        """Decode one line of a watch; `known` as for a page.

        Raises:
            SourceError: the error for the Status of an ERROR event.
            Malformed: the line is not an event whose strings and brackets are closed.
        """
        try:
            event = self._event.decode(line)
        except UnicodeDecodeError:
            return self.event(_valid_utf8(line), known)
        except _UNDECODABLE as error:
            return self._odd_event(line, known, str(error))
        match event:
            case _Bookmark(marker):
                return _bookmark_of(marker)
            case _Error(status):
                raise _error_of(status)
            case _ if foreign := self._foreign_kind(line):
                return Ignored(f"an object of kind {foreign}")
            case _ if self._plain and too_deep(event.object, self._plain):
                return self._odd_event(line, known)
            case _:
                return self._change(event.object, known, deleted=isinstance(event, _Deleted))

    def item(self, raw: bytes) -> T | Undecodable:
        """Decode one object, whatever it holds."""
        try:
            obj = self._item.decode(raw)
        except UnicodeDecodeError:
            return self.item(_valid_utf8(raw))
        except _UNDECODABLE as error:
            return describe(raw, error, self._metadata)
        if error := too_deep(obj, self._plain):
            return describe(raw, error, self._metadata)
        return obj if obj.metadata.name else NAMELESS

    def _page_by_item(self, body: bytes, known: Known[T]) -> Page[T]:
        try:
            members = dict(split_json(body))
            kind = _text.decode(members.get("kind", b'""'))
            metadata = _list_metadata.decode(members.get("metadata", b"{}"))
            listed = members.get("items", b"null")
            items = [raw for _, raw in split_json(listed)] if listed != b"null" else []
        except (Unbalanced, *_UNDECODABLE) as error:
            raise Malformed(f"not a list: {error}") from error
        objects: list[T] = []
        undecodable: list[Undecodable] = []
        for item in map(self.item, items):
            if isinstance(item, Undecodable):
                undecodable.append(item)
            else:
                objects.append(self._shared(item, known))
        return _page_of(kind, metadata, objects, tuple(undecodable))

    def _odd_event(self, line: bytes, known: Known[T], reason: str = "") -> WatchEvent[T]:
        """Decode an event that did not decode as a whole."""
        try:
            members = dict(split_json(line))
            kind, raw = _text.decode(members["type"]), members["object"]
        except (KeyError, Unbalanced, *_UNDECODABLE) as error:
            raise Malformed(f"not an event: {reason or error}") from error
        if kind == "ERROR":
            raise Malformed(f"an error without a readable Status: {reason}")
        if kind not in {"ADDED", "MODIFIED", "DELETED"}:
            return Ignored(f"an event of type {kind}: {reason}")
        if foreign := self._foreign_kind(line):
            return Ignored(f"an object of kind {foreign}")
        found = self.item(raw)
        if isinstance(found, Undecodable):
            if not (found.key and found.revision):
                return Ignored(found.reason)
            if found.metadata is not None and self._is_elsewhere(found.metadata):
                return _elsewhere(found.metadata)
            return replace(found, removed=kind == "DELETED")
        return self._change(found, known, deleted=kind == "DELETED")

    def _change(self, obj: T, known: Known[T], *, deleted: bool) -> WatchEvent[T]:
        if not (obj.metadata.name and obj.metadata.resource_version):
            return _WITHOUT_METADATA
        if self._is_elsewhere(obj.metadata):
            return _elsewhere(obj.metadata)
        return Removed(obj) if deleted else Upserted(self._shared(obj, known))

    def _is_elsewhere(self, metadata: Metadata) -> bool:
        found = metadata.namespace
        return (self._namespaced and not found) or self._namespace not in {"", found}

    def _foreign_kind(self, line: bytes) -> str:
        """Return the kind of a changed object if it is another one; empty if it names none."""
        if not self._kind:
            return ""
        lead = _LEAD.match(line)
        kind = lead[1].decode(errors="replace") if lead else _kind_in(line)
        return "" if kind == self._kind else kind

    def _shared(self, obj: T, known: Known[T]) -> T:
        with suppress(RecursionError):  # plain data in the depth of an object; sharing is optional
            before = cast("msgspec.Struct | None", known(key_of(obj)))
            self._pool.share(cast("msgspec.Struct", obj), before)
        return obj


_WITHOUT_METADATA = Ignored("an object without name or revision")


def _page_of(
    kind: str,
    metadata: _ListMetadata | None,
    objects: list[T],
    undecodable: tuple[Undecodable, ...],
) -> Page[T]:
    if not kind.endswith("List"):
        raise Malformed(f"asked for a list, got {kind or 'an object without a kind'}")
    if metadata is None or not metadata.resource_version:
        raise Malformed("a list without a resource version")
    return Page(objects, undecodable, metadata.resource_version, metadata.continue_)


def _elsewhere(metadata: Metadata) -> Ignored:
    return Ignored(f"an object of namespace {metadata.namespace or '(none)'}")


def _kind_in(line: bytes) -> str:
    try:
        return _changed_kind.decode(line).object.kind
    except (UnicodeDecodeError, *_UNDECODABLE):
        return ""


def _bookmark_of(marker: _Marker) -> Bookmark | Ignored:
    if not marker.metadata.resource_version:
        return Ignored("a bookmark without a revision")
    annotations = marker.metadata.annotations or {}
    ends = annotations.get(_INITIAL_EVENTS_END) == "true"
    return Bookmark(marker.metadata.resource_version, ends_initial_events=ends)


def _error_of(status: _Status) -> Exception:
    details = status.details or _Details()
    return error_from_status(
        status.code,
        status.reason,
        status.message,
        causes=[(cause.reason, cause.message) for cause in details.causes or []],
        retry_after=details.retry_after_seconds,
    )


def _valid_utf8(data: bytes) -> bytes:
    return data.decode(errors="replace").encode()
