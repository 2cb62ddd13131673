"""What comes out of the codec: pages of a list and events of a watch, as values (INF-34)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeAlias

from informers.objects import T


@dataclass(frozen=True, slots=True)
class Upserted(Generic[T]):
    """ADDED or MODIFIED: which of the two says nothing about our store (INF-36)."""

    object: T


@dataclass(frozen=True, slots=True)
class Removed(Generic[T]):
    """DELETED, with the object's final state."""

    object: T


@dataclass(frozen=True, slots=True)
class Bookmark:
    """BOOKMARK: everything up to `revision` has been sent."""

    revision: str
    ends_initial_events: bool = False


@dataclass(frozen=True, slots=True)
class Undecodable:
    """An object that does not fit its type. Only its identity could be read.

    Attributes:
        key: its key, empty if not even that could be read.
        uid: its uid.
        revision: its revision.
        reason: what the decoder objected to.
        removed: whether it came in a DELETED event.
    """

    key: str
    uid: str
    revision: str
    reason: str
    removed: bool = False


@dataclass(frozen=True, slots=True)
class Ignored:
    """An unknown event type (INF-27), or something without metadata: skipped and counted."""

    reason: str


WatchEvent: TypeAlias = Upserted[T] | Removed[T] | Bookmark | Undecodable | Ignored


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a list.

    Attributes:
        objects: what could be decoded.
        undecodable: what could not.
        revision: of the snapshot that this page belongs to.
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
        revision: of the list.
        reset: the server itself went back in time: a quorum read is older than what we held.
    """

    objects: list[T]
    undecodable: tuple[Undecodable, ...]
    revision: str
    reset: bool = False


def revision_of(event: WatchEvent[T]) -> str:
    """Revision that the store has reached with `event`; empty if it says nothing about that."""
    match event:
        case Upserted(obj) | Removed(obj):
            return obj.metadata.resource_version
        case Bookmark() | Undecodable():
            return event.revision
        case Ignored():
            return ""
