"""Decodes bytes into typed objects, without intermediate dictionaries.

A page or an event is decoded into Structs in one pass. If that fails, it is decoded object by
object, so that an object which does not fit its type does not affect the others. Equal parts of
objects are then shared in memory.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar, cast

import msgspec

from informers.errors import Malformed, error_from_status
from informers.events import Bookmark, Ignored, Page, Removed, Undecodable, Upserted, WatchEvent
from informers.intern_pool import InternPool
from informers.objects import ApiObject, T, object_key

_INITIAL_EVENTS_END = "k8s.io/initial-events-end"

_Item = TypeVar("_Item")


class _Wire(msgspec.Struct, rename="camel", gc=False):
    """Parts of pages and events that exist only during decoding."""


class _Identity(_Wire):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Identified(_Wire):
    metadata: _Identity = msgspec.field(default_factory=_Identity)


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


class _AnyEvent(_Wire):
    type: str
    object: msgspec.Raw


_identified = msgspec.json.Decoder(_Identified)
_raw_page = msgspec.json.Decoder(_Page[msgspec.Raw])
_any_event = msgspec.json.Decoder(_AnyEvent)


class Codec(Generic[T]):
    """Decodes list pages and watch events of one type.

    Args:
        view: a msgspec Struct type with `metadata`; other fields, such as `managedFields`, are
            skipped (INF-33).
    """

    def __init__(self, view: type[T]) -> None:
        self.view = view
        # A run-time type parameter, which type checkers cannot follow into the unions.
        struct: Any = view
        self._pool = InternPool()
        self._item: msgspec.json.Decoder[T] = msgspec.json.Decoder(view)
        self._page: msgspec.json.Decoder[_Page[T]] = msgspec.json.Decoder(_Page[struct])
        self._event: msgspec.json.Decoder[
            _Added[T] | _Modified[T] | _Deleted[T] | _Bookmark | _Error
        ] = msgspec.json.Decoder(
            _Added[struct] | _Modified[struct] | _Deleted[struct] | _Bookmark | _Error
        )

    def page(self, body: bytes) -> Page[T]:
        """Decode one page of a list.

        Raises:
            Malformed: not a list with metadata (INF-9), or not JSON.
        """
        try:
            page = self._page.decode(body)
        except msgspec.ValidationError:
            return self._page_by_item(body)
        except msgspec.DecodeError as error:
            raise Malformed(f"not a list: {error}") from error
        items = page.items or []
        objects = [self._shared(item) for item in items if item.metadata.name]
        nameless = tuple(_NAMELESS for _ in range(len(items) - len(objects)))
        return _page_of(page, objects, nameless)

    def event(self, line: bytes) -> WatchEvent[T]:
        """Decode one line of a watch.

        Raises:
            SourceError: the error for the Status of an ERROR event.
            Malformed: the line is not JSON, or not an event.
        """
        try:
            event = self._event.decode(line)
        except msgspec.ValidationError as error:
            return _odd_event(line, str(error))
        except msgspec.DecodeError as error:
            raise Malformed(f"not an event: {error}") from error
        match event:
            case _Added(obj) | _Modified(obj):
                return Upserted(self._shared(obj)) if _is_whole(obj) else _WITHOUT_METADATA
            case _Deleted(obj):
                return Removed(obj) if _is_whole(obj) else _WITHOUT_METADATA
            case _Bookmark(marker):
                return _bookmark_of(marker)
            case _Error(status):
                raise _error_of(status)

    def _page_by_item(self, body: bytes) -> Page[T]:
        try:
            page = _raw_page.decode(body)
        except msgspec.DecodeError as error:
            raise Malformed(f"not a list: {error}") from error
        objects: list[T] = []
        undecodable: list[Undecodable] = []
        for raw in page.items or []:
            try:
                item = self._item.decode(raw)
            except msgspec.ValidationError as error:
                undecodable.append(_identify(raw, str(error)))
            else:
                if item.metadata.name:
                    objects.append(self._shared(item))
                else:
                    undecodable.append(_NAMELESS)
        return _page_of(page, objects, tuple(undecodable))

    def _shared(self, obj: T) -> T:
        self._pool.share(cast("msgspec.Struct", obj))
        return obj


_NAMELESS = Undecodable(key="", uid="", revision="", reason="an object without a name")
_WITHOUT_METADATA = Ignored("an object without name or revision")


def _is_whole(obj: ApiObject) -> bool:
    return bool(obj.metadata.name and obj.metadata.resource_version)


def _page_of(page: _Page[Any], objects: list[T], undecodable: tuple[Undecodable, ...]) -> Page[T]:
    if not page.kind.endswith("List"):
        raise Malformed(f"asked for a list, got {page.kind or 'an object without a kind'}")
    if page.metadata is None or not page.metadata.resource_version:
        raise Malformed("a list without a resource version")
    return Page(objects, undecodable, page.metadata.resource_version, page.metadata.continue_)


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


def _odd_event(line: bytes, reason: str) -> Undecodable | Ignored:
    """Classify an event that is JSON but did not decode."""
    try:
        event = _any_event.decode(line)
    except msgspec.DecodeError as error:
        raise Malformed(f"not an event: {error}") from error
    if event.type not in {"ADDED", "MODIFIED", "DELETED"}:
        return Ignored(f"an event of type {event.type}: {reason}")
    found = _identify(event.object, reason, removed=event.type == "DELETED")
    return found if found.key and found.revision else Ignored(reason)


def _identify(raw: msgspec.Raw, reason: str, *, removed: bool = False) -> Undecodable:
    try:
        meta = _identified.decode(raw).metadata
    except msgspec.DecodeError:
        return Undecodable(key="", uid="", revision="", reason=reason, removed=removed)
    key = object_key(meta.namespace, meta.name)
    return Undecodable(key, meta.uid, meta.resource_version, reason, removed)
