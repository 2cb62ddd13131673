"""Results of the codec: pages of a list and events of a watch, as values (INF-34)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeAlias

from informers.objects import Metadata, T


@dataclass(frozen=True, slots=True)
class Upserted(Generic[T]):
    """ADDED or MODIFIED, which mean the same for a store (INF-36)."""

    object: T


@dataclass(frozen=True, slots=True)
class Removed(Generic[T]):
    """DELETED, with the final state of the object."""

    object: T


@dataclass(frozen=True, slots=True)
class Bookmark:
    """BOOKMARK: the server has sent everything up to `revision`."""

    revision: str
    ends_initial_events: bool = False


@dataclass(frozen=True, slots=True)
class Undecodable:
    """An object that cannot be decoded.

    Attributes:
        key: key of the object, empty if it could not be decoded either.
        uid: uid of the object.
        revision: revision of the object.
        reason: field and problem, or the message of the decoder.
        removed: whether the event was DELETED.
        metadata: its metadata, or the names in it if the rest does not fit; None without a name.
    """

    key: str
    uid: str
    revision: str
    reason: str
    removed: bool = False
    metadata: Metadata | None = None


@dataclass(frozen=True, slots=True)
class Ignored:
    """An unknown event type (INF-27) or an event without metadata: skipped and counted."""

    reason: str


WatchEvent: TypeAlias = Upserted[T] | Removed[T] | Bookmark | Undecodable | Ignored


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a list.

    Attributes:
        objects: the decoded objects.
        undecodable: objects that do not fit their type.
        revision: revision of the snapshot that this page belongs to.
        continue_: token for the next page, empty on the last.
    """

    objects: list[T]
    undecodable: tuple[Undecodable, ...]
    revision: str
    continue_: str


@dataclass(frozen=True, slots=True)
class Replaced(Generic[T]):
    """A complete list at one revision, paged or streamed.

    Attributes:
        objects: in the server's order.
        undecodable: objects that exist but do not fit their type.
        revision: revision of the list.
        reset: whether the server went back in time: a quorum read is older than the store, or shows
            something older that the store does not.
    """

    objects: list[T]
    undecodable: tuple[Undecodable, ...]
    revision: str
    reset: bool = False


def revision_of(event: WatchEvent[T]) -> str:
    """Return the revision that the store reaches with `event`, empty if the event has none."""
    match event:
        case Upserted(obj) | Removed(obj):
            return obj.metadata.resource_version
        case Bookmark() | Undecodable():
            return event.revision
        case Ignored():
            return ""
