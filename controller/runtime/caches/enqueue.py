"""Maps events of objects to keys in the queue (CTL-20 to CTL-24).

Objects of the initial list and events that change nothing get low priority (WQ-30).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from controller.apimachinery.ownership import refers_to
from controller.kube.objects import KubeObject
from informers import last_state
from workqueue import LOW_PRIORITY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from controller.kube.resources import Resource
    from controller.runtime.kind import Owned
    from informers import Tombstone
    from workqueue import WorkQueue

T = TypeVar("T", bound=KubeObject)


class EnqueueHandler(Generic[T]):
    """An informer's handler that enqueues the keys a function gives for an object.

    Args:
        queue: the queue of the controller.
        keys: keys for an object; its second argument is False if the object was deleted.
    """

    def __init__(
        self,
        queue: WorkQueue[str],
        keys: Callable[[T, bool], list[str]],
    ) -> None:
        self._queue = queue
        self._keys = keys

    def on_add(self, obj: T, *, initial: bool) -> None:
        """Enqueue; objects of the initial list get low priority."""
        self._enqueue(self._keys(obj, True), low=initial)

    def on_update(self, old: T, new: T) -> None:
        """Enqueue the keys of both states, each once."""
        unchanged = old.metadata.resource_version == new.metadata.resource_version
        keys = self._keys(new, True)
        if old is not new:
            keys = [*self._keys(old, True), *keys]
        self._enqueue(keys, low=unchanged)

    def on_delete(self, obj: T | Tombstone[T]) -> None:
        """Enqueue the keys of the last known state."""
        self._enqueue(self._keys(last_state(obj), False), low=False)

    def _enqueue(self, keys: list[str], *, low: bool) -> None:
        for key in dict.fromkeys(keys):
            self._queue.add(key, priority=LOW_PRIORITY if low else 0)


def own_key(obj: KubeObject, _existing: bool) -> list[str]:
    """Return the object's own key (CTL-20)."""
    return [obj.metadata.key]


def owner_keys(
    primary: Resource[Any],
    owned: Owned[T],
    uid_of: Callable[[str], str | None],
    referring: Callable[[str, str], Iterable[KubeObject]] = lambda _index, _key: (),
    is_served: Callable[[str], bool] = lambda _key: True,
) -> Callable[[T, bool], list[str]]:
    """Return a function that gives the keys of an object's owner and of related objects.

    The owner is matched by group and kind, whatever its version (CTL-21). If the cached owner of
    that name has another uid, the object belonged to an earlier owner: then only its deletion
    counts (CTL-24).

    Args:
        primary: resource of the owners.
        owned: what is watched.
        uid_of: uid of the cached owner with that key, None if there is none.
        referring: cached owners that have a key in an index.
        is_served: whether the owner of a key is watched, if it exists. Labels of an object in no
            namespace may name an owner in any.
    """

    def keys(obj: T, existing: bool) -> list[str]:
        found: list[str] = []
        controller = obj.metadata.controller
        if controller is not None and refers_to(controller, primary):
            namespace = obj.metadata.namespace if primary.namespaced else ""
            key = f"{namespace}/{controller.name}" if namespace else controller.name
            if not existing or uid_of(key) in {None, controller.uid}:
                found.append(key)
        if owned.also_enqueues is not None:
            found.extend(filter(is_served, owned.also_enqueues(obj)))
        if (references := owned.references) is not None:
            for key in references.of_object(obj):
                found.extend(each.metadata.key for each in referring(references.index, key))
        return found

    return keys
