"""The part of an object that informers use: metadata, keys and tombstones.

All other fields belong to the Struct type that the caller passes to the codec.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeAlias, TypeVar


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
T_contra = TypeVar("T_contra", bound=ApiObject, contravariant=True)

IndexFunction: TypeAlias = Callable[[T], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Tombstone(Generic[T_co]):
    """A deletion that was not observed: `last` may be older than the object's final state.

    Upstream's `DeletedFinalStateUnknown` (INF-38).
    """

    key: str
    last: T_co


def last_state(obj: T | Tombstone[T]) -> T:
    """Return the last known state of a deleted object, also if its deletion was not observed."""
    return obj.last if isinstance(obj, Tombstone) else obj


def object_key(namespace: str, name: str) -> str:
    """Return `namespace/name`, or `name` for cluster-scoped objects (INF-54)."""
    return f"{namespace}/{name}" if namespace else name


def key_of(obj: ApiObject | Tombstone[ApiObject]) -> str:
    """Return the key of an object or of a tombstone."""
    if isinstance(obj, Tombstone):
        return obj.key
    return object_key(obj.metadata.namespace, obj.metadata.name)
