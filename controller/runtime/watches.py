"""Merges what the kinds watch into one watch for each resource.

The process has one informer for a resource and namespace, whichever kinds need it (INF-61). They
must agree on the label selector; each may add indexes of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import structlog

from controller.apimachinery.metadata import index_by_owner, refers_to
from controller.kube.client import Client
from controller.kube.errors import Forbidden, KubeError
from controller.kube.objects import KubeObject
from controller.kube.resources import INSTALL_CRDS, Resource
from controller.kube.source import is_served
from controller.runtime.kind import OWNER_INDEX, Kind, Owned, References
from informers import Added, Deleted, Handler, Notification, Updated
from workqueue import LOW_PRIORITY, WorkQueue

_REMEDY = "Kinds that own one resource must declare its watch in one place and share it."


@dataclass(slots=True)
class ResourceWatch:
    """The watch of one resource, for all kinds that need it.

    Attributes:
        label_selector: limits list and watch.
        optional: whether the API server may lack the resource, for every kind.
        indexes: index functions by name, `owner` included.
        declared_by: name of the first kind that declared the selector, and of that of each index.
    """

    label_selector: str
    optional: bool
    indexes: dict[str, Callable[[Any], Sequence[str]]] = field(
        default_factory=dict[str, "Callable[[Any], Sequence[str]]"]
    )
    declared_by: dict[str, str] = field(default_factory=dict[str, str])


def merge_watches(kinds: Iterable[Kind[Any]]) -> Mapping[Resource[Any], ResourceWatch]:
    """Return one watch for each primary and owned resource; primaries are watched whole.

    Raises:
        ValueError: two kinds declare different selectors for one resource, or different functions
            for one index. The message names both kinds and the remedy.
    """
    kinds = tuple(kinds)
    watches: dict[Resource[Any], ResourceWatch] = {}
    for kind in kinds:
        for owned in (_primary(kind), *kind.owned):
            watch = watches.get(owned.resource)
            if watch is None:
                watch = ResourceWatch(
                    owned.label_selector, owned.optional, declared_by={"": kind.name}
                )
                watches[owned.resource] = watch
            watch.optional = watch.optional and owned.optional
            if watch.label_selector != owned.label_selector:
                raise ValueError(
                    f"{watch.declared_by['']} watches {owned.resource} with the label selector "
                    f"{watch.label_selector!r}, {kind.name} with {owned.label_selector!r}. "
                    f"{_REMEDY}"
                )
            _add_indexes(watch, owned, kind.name)
    for kind in kinds:
        for references in (owned.references for owned in kind.owned):
            if references is not None and references.through is not None:
                through = Owned(
                    references.through, indexes={references.index: references.of_primary}
                )
                _add_indexes(watches[references.through], through, kind.name)
    return watches


def _add_indexes(watch: ResourceWatch, owned: Owned[Any], kind: str) -> None:
    for index, function in {OWNER_INDEX: index_by_owner, **owned.indexes}.items():
        if watch.indexes.setdefault(index, function) != function:
            raise ValueError(
                f"{watch.declared_by[index]} and {kind} declare different functions for the index "
                f"{index!r} of {owned.resource}. {_REMEDY}"
            )
        watch.declared_by.setdefault(index, kind)


def _primary(kind: Kind[Any]) -> Owned[Any]:
    """Return the primary resource with the indexes that `References` look it up by."""
    references = (owned.references for owned in kind.owned if owned.references is not None)
    indexes = {each.index: each.of_primary for each in references if each.through is None}
    return Owned(kind.primary, indexes=indexes, optional=kind.optional)


# Maps events of objects to keys in the queue (CTL-24).
#
# Objects of the initial list and events that change nothing get low priority (WQ-30).

T = TypeVar("T", bound=KubeObject)


def enqueue_handler(
    queue: WorkQueue[str], keys: Callable[[Sequence[T], bool], Iterable[str]]
) -> Handler[T]:
    """Return an informer's handler that enqueues the keys of both states of an object, each once.

    Args:
        queue: where to.
        keys: keys for the states of an object; its second argument is False if it was deleted.
    """

    def handle(change: Notification[T]) -> None:
        match change:
            case Added(obj, low):
                found = keys((obj,), True)
            case Updated(old, new):
                low = old.metadata.resource_version == new.metadata.resource_version
                found = keys((new,) if old is new else (old, new), True)
            case Deleted(obj):
                low, found = False, keys((obj,), False)
        for key in dict.fromkeys(found):
            queue.add(key, priority=LOW_PRIORITY if low else 0)

    return handle


def own_key(states: Sequence[KubeObject], _existing: bool = True) -> list[str]:
    """Return the object's own key."""
    return [states[-1].metadata.key]


def owner_keys(
    primary: Resource[Any],
    owned: Owned[T],
    uid_of: Callable[[str], str | None],
    referring: Callable[[References[Any], str], Iterable[KubeObject]] = lambda _by, _key: (),
    is_served: Callable[[str], bool] = lambda _key: True,
) -> Callable[[Sequence[T], bool], list[str]]:
    """Return a function that gives the keys of an object's owners and of related objects.

    The owner is matched by group and kind, whatever its version (CTL-21). If the cached owner of
    that name has another uid, the object belonged to an earlier owner: then only its deletion
    counts (CTL-24). Labels of an object in no namespace may name an owner in any namespace, also
    in one that is not served.
    """

    def keys(states: Sequence[T], existing: bool) -> list[str]:
        found: list[str] = []
        owners = None
        for obj in states:
            if obj.metadata.owner_references != owners:  # most events leave the owner as it is
                owners = obj.metadata.owner_references
                found += _owner(primary, obj, uid_of, existing=existing)
            if owned.also_enqueues is not None:
                found.extend(filter(is_served, owned.also_enqueues(obj)))
            if (references := owned.references) is not None:
                for key in references.of_object(obj):
                    for each in referring(references, key):
                        is_owned = references.through is not None
                        found += _owner(primary, each, uid_of) if is_owned else own_key([each])
        return found

    return keys


def _owner(
    primary: Resource[Any],
    obj: KubeObject,
    uid_of: Callable[[str], str | None],
    *,
    existing: bool = True,
) -> list[str]:
    """Return the key of the object's owner, if that is a primary."""
    controller = obj.metadata.controller
    if controller is not None and refers_to(controller, primary):
        namespace = obj.metadata.namespace if primary.namespaced else ""
        key = f"{namespace}/{controller.name}" if namespace else controller.name
        if not existing or uid_of(key) in {None, controller.uid}:
            return [key]
    return []


# Finds out which of the optional resources the API server has.
#
# A resource that the operator may not list counts as missing: the operator works without it.

RETRY: Final = 2.0
"""Seconds between two attempts to learn what the server has."""

ASK: Final = 30.0
"""Seconds after which the server is asked again for a resource that it lacked."""

_log = structlog.stdlib.get_logger("manta.caches")


async def wait_until_known(
    client: Client, resource: Resource[Any], namespaces: Sequence[str]
) -> bool:
    """Return whether the server serves it and it may be listed; retry until the server responds."""
    while True:
        try:
            return await is_available(client, resource, namespaces)
        except Forbidden as error:
            _log.warning("resource.forbidden", resource=str(resource), error=str(error))
            return False
        except KubeError as error:
            _log.warning("discovery.failed", resource=str(resource), error=str(error))
            await asyncio.sleep(RETRY)


async def is_available(client: Client, resource: Resource[Any], namespaces: Sequence[str]) -> bool:
    """Return whether the server serves a resource and it may be listed; see `wait_until_known`.

    Raises:
        Forbidden: it may not be listed.
        KubeError: the server gave no usable response.
    """
    if not await is_served(client, resource):
        return False
    for namespace in namespaces:
        await client.list_metadata(resource, namespace, limit=1)
    return True


def warn_not_served(resource: Resource[Any]) -> None:
    """Log that objects of a kind cannot be reconciled, and the remedy."""
    _log.warning(
        "kind.not_served",
        kind=resource.kind,
        remedy=f"install the definitions ({INSTALL_CRDS}; "
        "those of Workspaces are printed by manta crds --kind workspace)",
    )
