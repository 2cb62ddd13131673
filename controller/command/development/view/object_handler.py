"""An informer handler that updates a view."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from controller.kube.objects import KubeObject
from informers import key_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from informers import Tombstone

T = TypeVar("T", bound=KubeObject)


class ObjectHandler(Generic[T]):
    """Passes each object's new state from an informer to a view.

    Args:
        saw: called with the key and the new state of each changed object, None if it is deleted.
    """

    def __init__(self, saw: Callable[[str, T | None], None]) -> None:
        self._saw = saw

    def on_add(self, obj: T, *, initial: bool) -> None:
        """Handle a new object."""
        del initial
        self._saw(obj.metadata.key, obj)

    def on_update(self, old: T, new: T) -> None:
        """Handle a changed object."""
        del old
        self._saw(new.metadata.key, new)

    def on_delete(self, obj: T | Tombstone[T]) -> None:
        """Handle a deleted object."""
        self._saw(key_of(obj), None)
