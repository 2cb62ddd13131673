"""What an informer needs to know of an object: its metadata, its key, and how its end is told.

Everything else of an object is the business of the Struct type that the caller gives the codec.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeAlias, TypeVar


class Metadata(Protocol):
    """The part of `metadata` that informers read."""

    @property
    def name(self) -> str:
        """Unique within namespace and resource."""
        ...

    @property
    def namespace(self) -> str:
        """Empty for cluster-scoped objects."""
        ...

    @property
    def uid(self) -> str:
        """Tells apart two objects that had the same name one after the other."""
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
    """An end that was noticed, not seen: `last` may be older than the object's final state.

    Upstream's `DeletedFinalStateUnknown` (INF-38).
    """

    key: str
    last: T_co


def object_key(namespace: str, name: str) -> str:
    """`namespace/name`, or `name` for cluster-scoped objects (INF-54)."""
    return f"{namespace}/{name}" if namespace else name


def key_of(obj: ApiObject | Tombstone[ApiObject]) -> str:
    """Key of an object or of a tombstone."""
    if isinstance(obj, Tombstone):
        return obj.key
    return object_key(obj.metadata.namespace, obj.metadata.name)


def split_key(key: str) -> tuple[str, str]:
    """Namespace and name of a key.

    Raises:
        ValueError: more than one slash.
    """
    namespace, slash, name = key.rpartition("/")
    if "/" in namespace or (slash and not (namespace and name)):
        raise ValueError(f"not a key of the form namespace/name or name: {key!r}")
    return namespace, name
