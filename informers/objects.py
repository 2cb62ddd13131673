"""The part of an object that informers use: metadata and keys.

All other fields belong to the Struct type that the caller passes to the codec.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeAlias, TypeVar

# Compares resource versions (INF-58).
#
# The order is meaningful only within one resource of one cluster. Versions are compared as text, by
# length and then by character, so that no number is too large.


_COMPARABLE = re.compile("[1-9][0-9]*").fullmatch


def is_comparable(revision: str) -> bool:
    """Return whether `revision` is a positive decimal number without leading zeros."""
    return _COMPARABLE(revision) is not None


def is_older(a: str, b: str) -> bool:
    """Return whether `a` is certainly older than `b`; False if they are not comparable."""
    return bool(_COMPARABLE(a) and _COMPARABLE(b)) and (len(a), a) < (len(b), b)


def is_newer(a: str, b: str) -> bool:
    """Return whether `a` may be newer than `b`; True if they are not comparable."""
    return not (_COMPARABLE(a) and _COMPARABLE(b)) or (len(a), a) > (len(b), b)


def is_odd(a: str, b: str) -> bool:
    """Return whether `a` cannot be compared, though `b` can be with others."""
    return is_comparable(b) and not is_comparable(a)


def later(a: str, b: str) -> str:
    """Return the newer of two revisions; of a number and what is none, the number."""
    return b if is_older(a, b) or not is_comparable(a) else a


class Metadata(Protocol):
    """The part of `metadata` that informers read."""

    @property
    def name(self) -> str:
        """Name, unique within namespace and resource."""
        ...

    @property
    def namespace(self) -> str:
        """Namespace, empty for cluster-scoped objects."""
        ...

    @property
    def uid(self) -> str:
        """Uid, which distinguishes successive objects of one name."""
        ...

    @property
    def resource_version(self) -> str:
        """Revision of the last change."""
        ...


class ApiObject(Protocol):
    """An object of the API, immutable."""

    @property
    def metadata(self) -> Metadata:
        """Name, namespace, uid and revision at least."""
        ...


T = TypeVar("T", bound=ApiObject)
T_co = TypeVar("T_co", bound=ApiObject, covariant=True)

IndexFunction: TypeAlias = Callable[[T], Sequence[str]]


def object_key(namespace: str, name: str) -> str:
    """Return `namespace/name`, or `name` for cluster-scoped objects."""
    return f"{namespace}/{name}" if namespace else name


def key_of(obj: ApiObject) -> str:
    """Return the key of an object."""
    return object_key(obj.metadata.namespace, obj.metadata.name)


# Results of the codec: pages of a list and events of a watch, as values.


@dataclass(frozen=True, slots=True)
class Upserted(Generic[T]):
    """ADDED or MODIFIED, which mean the same for a store."""

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
    """An unknown event type or an event without metadata: skipped and counted."""

    reason: str


WatchEvent: TypeAlias = Upserted[T] | Removed[T] | Bookmark | Undecodable | Ignored


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a list.

    Attributes:
        undecodable: objects that do not fit their type.
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
        undecodable: objects that exist but do not fit their type.
        fills_gaps: whether the store is known to lack events that came out of order.
    """

    objects: list[T]
    undecodable: tuple[Undecodable, ...]
    revision: str
    fills_gaps: bool = False


def revision_of(event: WatchEvent[T]) -> str:
    """Return the revision that the store reaches with `event`, empty if the event has none."""
    match event:
        case Upserted(obj) | Removed(obj):
            return obj.metadata.resource_version
        case Bookmark() | Undecodable():
            return event.revision
        case Ignored():
            return ""
