"""The temporary store of one streaming list (INF-13)."""

from __future__ import annotations

from typing import Generic

from informers.events import (
    Bookmark,
    Ignored,
    Removed,
    Replaced,
    Undecodable,
    Upserted,
    WatchEvent,
    revision_of,
)
from informers.objects import T, key_of
from informers.revisions import is_newer, is_odd


class InitialState(Generic[T]):
    """Collects initial events, including deletions, until the end bookmark."""

    def __init__(self) -> None:
        self._objects: dict[str, T] = {}
        self._undecodable: dict[str, Undecodable] = {}
        self._revisions: dict[str, str] = {}

    def apply(self, event: WatchEvent[T]) -> None:
        """Apply one event, unless it tells nothing new about its object."""
        match event:
            case Upserted(obj) | Removed(obj) if not self._advances(key_of(obj), event):
                pass
            case Undecodable(key) if not self._advances(key, event):
                pass
            case Upserted(obj):
                self._undecodable.pop(key_of(obj), None)
                self._objects[key_of(obj)] = obj
            case Removed(obj):
                self._forget(key_of(obj))
            case Undecodable(key):
                self._forget(key)
                if not event.removed:
                    self._undecodable[key] = event
            case Bookmark() | Ignored():
                pass

    def _advances(self, key: str, event: WatchEvent[T]) -> bool:
        revision, shown = revision_of(event), self._revisions.get(key, "")
        if is_odd(revision, shown) or not is_newer(revision, shown):
            return False
        self._revisions[key] = revision
        return True

    def complete(self, revision: str, *, reset: bool) -> Replaced[T]:
        """Return the complete list at the revision of the end bookmark."""
        undecodable = tuple(self._undecodable.values())
        return Replaced(list(self._objects.values()), undecodable, revision, reset)

    def _forget(self, key: str) -> None:
        self._objects.pop(key, None)
        self._undecodable.pop(key, None)
