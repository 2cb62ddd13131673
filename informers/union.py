"""Several listers, each of one namespace, read as one (INF-64)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic

from informers.errors import NotWatched
from informers.objects import T, split_key
from informers.revisions import is_older

if TYPE_CHECKING:
    from collections.abc import Mapping

    from informers.store import Lister


class NamespacedLister(Generic[T]):
    """A `Lister` over some namespaces but not all.

    Args:
        listers: one for each namespace that is watched.
    """

    def __init__(self, listers: Mapping[str, Lister[T]]) -> None:
        self._listers = dict(listers)

    @property
    def resource_version(self) -> str:
        """The oldest revision among the namespaces; empty until all have synced."""
        oldest = ""
        for revision in (lister.resource_version for lister in self._listers.values()):
            if not revision:
                return ""
            if not oldest or is_older(revision, oldest):
                oldest = revision
        return oldest

    def get(self, key: str) -> T | None:
        """The object with that key.

        Raises:
            NotWatched: its namespace is not watched, so nothing can be said.
        """
        namespace, _ = split_key(key)
        if namespace not in self._listers:
            raise NotWatched(f"namespace {namespace!r} is not watched")
        return self._listers[namespace].get(key)

    def list(self) -> list[T]:
        """All objects of all watched namespaces."""
        return [obj for lister in self._listers.values() for obj in lister.list()]

    def by_index(self, index: str, value: str) -> list[T]:
        """The objects for which index function `index` gives `value`."""
        return [obj for lister in self._listers.values() for obj in lister.by_index(index, value)]

    def keys_by_index(self, index: str, value: str) -> frozenset[str]:
        """Their keys."""
        parts = (lister.keys_by_index(index, value) for lister in self._listers.values())
        return frozenset(key for part in parts for key in part)
