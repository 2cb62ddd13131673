"""All caches of the process: one informer for each resource and namespace that any kind needs.

They notify first the expectations of each change, then the controllers' handlers.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

import structlog

from controller.kube.client import Client
from controller.kube.errors import KubeError
from controller.kube.objects import KubeObject
from controller.kube.resources import Resource
from controller.kube.source import ResourceSource, is_served
from controller.runtime.cache import (
    Cache,
    CacheBarrier,
    CacheScope,
    confirm,
    explain,
    unready,
)
from controller.runtime.controller import Controller
from controller.runtime.expectations import Expectations
from controller.runtime.kind import (
    Kind,
    ObjectUnreadable,
    References,
    ServerUnusable,
    SyncTimeout,
    leaves,
)
from controller.runtime.overlay import Overlay
from controller.runtime.watches import (
    ASK,
    ResourceWatch,
    enqueue_handler,
    is_available,
    merge_watches,
    own_key,
    owner_keys,
    wait_until_known,
    warn_not_served,
)
from informers import (
    Added,
    Clock,
    Codec,
    Deleted,
    Handler,
    HistoryChanged,
    InformerMetrics,
    InvalidResourceVersion,
    Notification,
    SharedInformer,
    Undecodable,
    Updated,
)

_RESTORED: Final = (
    "The API server went back in time: its database was probably restored from a backup. This "
    "process ends without having planned anything by that, and a new one reads everything anew"
)
_OPAQUE: Final = (
    "This API server's resource versions are no numbers, so that nobody can tell whether what is "
    "cached is older than what was written. Manta cannot work with it"
)

_log = structlog.stdlib.get_logger("manta.caches")


class Caches:
    """Creates and runs all informers: a `manager.Runnable`, ready when all have synced.

    Args:
        namespaces: to watch; empty for all.
        sync_timeout: seconds after which incomplete caches are an error.
        on_synced: called once, when all caches are complete.
        on_watch: called with the resource and the namespace when a watch of primary objects begins.
        on_available: called with an optional resource that is installed later, once its objects can
            be read, and with one that is removed, once they cannot.

    Raises:
        ValueError: two kinds want one resource with different selectors, or two index functions
            of one name.
    """

    name = "caches"

    def __init__(
        self,
        client: Client,
        kinds: Sequence[Kind[Any]],
        *,
        expectations: Expectations,
        namespaces: Sequence[str],
        clock: Clock,
        rng: random.Random,
        sync_timeout: float,
        metrics: Callable[[CacheScope], InformerMetrics | None] = lambda _scope: None,
        on_synced: Callable[[], None] | None = None,
        on_quarantine: Callable[[Resource[Any], Undecodable], None] | None = None,
        on_watch: Callable[[Resource[Any], str], None] = lambda _resource, _namespace: None,
        on_available: Callable[[Resource[Any]], None] = lambda _resource: None,
    ) -> None:
        self._client = client
        self._expectations = expectations
        self._clock = clock
        self._rng = rng
        self._metrics = metrics
        self._sync_timeout = sync_timeout
        self._on_synced = on_synced
        self._on_quarantine = on_quarantine
        self._on_watch = on_watch
        self._on_available = on_available
        expectations.on_rewound = self._relist
        self._stopped = asyncio.Event()
        self._tasks: asyncio.TaskGroup | None = None
        self._added: list[Cache] = []  # those too from which nothing is read yet
        self._namespaces = namespaces
        self._subscribers: list[tuple[Resource[Any], Handler[Any], str]] = []
        self._optional: dict[Resource[Any], ResourceWatch] = {}  # that the server lacks
        self._dispensable: dict[Resource[Any], ResourceWatch] = {}  # that it has and may lose
        self._confirming = asyncio.Lock()
        self._primaries = {kind.primary for kind in kinds}
        self.caches: list[Cache] = []
        for resource, watch in merge_watches(kinds).items():
            if watch.optional:
                self._optional[resource] = watch
            else:
                for cache in self._watch(resource, watch):
                    self._publish(cache, watch)

    def serve(self, controller: Controller[Any], kind: Kind[Any]) -> None:
        """Enqueue keys with the controller for events that concern `kind`. Call before `run`."""
        handlers = [(kind.primary, enqueue_handler(controller.queue, own_key))]
        for owned in kind.owned:
            keys = owner_keys(
                kind.primary,
                owned,
                partial(self._uid_of, kind.primary),
                partial(self._referring, kind.primary),
                self._is_served,
            )
            handlers.append((owned.resource, enqueue_handler(controller.queue, keys)))
        for resource, handler in handlers:
            self._subscribers.append((resource, handler, controller.name))
            self._subscribe(resource, handler, controller.name)

    async def run(self, ready: Callable[[], None]) -> None:
        """Run all informers until stopped.

        Raises:
            SyncTimeout: they were not complete in time; the message gives the cause.
            ServerUnusable: the server went back in time, or its revisions cannot be compared.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                for cache in self._added:
                    self._start(cache, tasks)
                syncing = tasks.create_task(self._sync(ready))
                await self._stopped.wait()
                self._tasks = None  # a definition that is found now starts nothing any more
                for task in (syncing, *(cache.run for cache in self._added)):
                    if task is not None:
                        task.cancel()
        except* HistoryChanged as errors:
            raise ServerUnusable(f"{leaves(errors)[0]}. {_RESTORED}") from None
        except* InvalidResourceVersion as errors:
            raise ServerUnusable(f"{leaves(errors)[0]}. {_OPAQUE}") from None

    def stop(self) -> None:
        """Stop all informers."""
        self._stopped.set()

    async def confirm(self, since: float) -> None:
        """Wait until every cache has seen what was there before (EXP-27).

        Args:
            since: time of the clock, not later than now, since which this process leads; minus
                infinity if it always does.

        Raises:
            SyncTimeout: this took longer than `sync_timeout`; the message gives the cause.
        """
        async with self._confirming:
            await confirm(self.caches, self._sync_timeout, since=since)

    async def reread(self, resource: Resource[Any]) -> None:
        """Read all objects of a kind again, because its definition has changed."""
        if resource in self._primaries:
            read = (
                each.informer.reread(f"the definition of {resource} has changed")
                for each in self.caches
                if each.scope.resource == resource
            )
            await asyncio.gather(*read)

    def keys(self, resource: Resource[Any]) -> list[str]:
        """Return the keys of all cached objects of a resource."""
        return [
            obj.metadata.key
            for cache in self.caches
            if cache.scope.resource == resource
            for obj in cache.informer.lister.list()
        ]

    def unready(self) -> str | None:
        """Return a sentence about why the caches are incomplete or stale, else None."""
        oldest_unseen = self._expectations.statistics().oldest_unseen
        return unready(self.caches, oldest_unseen, self._clock.time())

    async def _sync(self, ready: Callable[[], None]) -> None:
        """Wait for all informers, within the time limit."""
        try:
            async with asyncio.timeout(self._sync_timeout):
                await asyncio.gather(self._wait_for_sync(), self._watch_optional())
                await self._wait_for_sync()
        except TimeoutError:
            missing = [cache for cache in self.caches if not cache.informer.has_synced]
            raise SyncTimeout(explain(missing, self._sync_timeout)) from None
        if self._on_synced is not None:
            self._on_synced()
        ready()
        await self._watch_installed()

    async def _wait_for_sync(self) -> None:
        for cache in tuple(self._added):
            await cache.informer.wait_for_sync()

    async def _watch_optional(self) -> None:
        """Watch those of the optional resources that the server has; all are asked for at once."""
        async with asyncio.TaskGroup() as group:
            asked = {
                resource: group.create_task(
                    wait_until_known(self._client, resource, self._to_be_listed(resource))
                )
                for resource in self._optional
            }
        for resource, answer in asked.items():
            if answer.result():
                watch = self._optional.pop(resource)
                for cache in self._watch(resource, watch):
                    self._publish(cache, watch)
                self._subscribe_all(resource, watch)
            elif resource in self._primaries:
                warn_not_served(resource)

    async def _watch_installed(self) -> None:
        """Watch optional resources that are installed later; stop watching removed ones."""
        has_any = bool(self._optional or self._dispensable)
        async with asyncio.TaskGroup() as group:
            while has_any:
                await asyncio.sleep(ASK)
                for resource in list(self._dispensable):
                    with suppress(KubeError):
                        await self._withdraw_if_removed(resource)
                for resource in list(self._optional):
                    with suppress(KubeError):
                        namespaces = self._to_be_listed(resource)
                        if await is_available(self._client, resource, namespaces):
                            watch = self._optional.pop(resource)
                            group.create_task(self._begin(resource, watch))

    async def _begin(self, resource: Resource[Any], watch: ResourceWatch) -> None:
        """Watch a resource; publish its caches once they are complete and confirmed."""
        added = self._watch(resource, watch)
        for cache in added:
            await cache.informer.wait_for_sync()
        while not await self._publish_confirmed(added, watch):
            pass  # the attempt has taken its time
        self._subscribe_all(resource, watch)
        _log.info("resource.available", resource=str(resource))
        self._on_available(resource)

    async def _withdraw_if_removed(self, resource: Resource[Any]) -> None:
        """Forget the caches of a resource that the server does not have any more.

        Raises:
            KubeError: the server gave no usable response.
        """
        caches = [cache for cache in self.caches if cache.scope.resource == resource]
        if all(cache.informer.statistics().connected for cache in caches):
            return
        if await is_served(self._client, resource):
            return
        async with self._confirming:
            self._expectations.overlay(resource).remove_caches()
            for cache in caches:
                self.caches.remove(cache)
                await self._remove(cache)
            self._optional[resource] = self._dispensable.pop(resource)
        _log.warning("resource.removed", resource=str(resource))
        self._on_available(resource)

    async def _publish_confirmed(self, added: Sequence[Cache], watch: ResourceWatch) -> bool:
        """Publish confirmed caches; a process that begins to lead confirms them too."""
        async with self._confirming:
            try:
                await confirm(added, self._sync_timeout, since=self._clock.time())
            except SyncTimeout as error:
                _log.warning("cache.not_confirmed", error=str(error))
                return False
            for cache in added:
                self._publish(cache, watch)
            return True

    def _to_be_listed(self, resource: Resource[Any]) -> Sequence[str]:
        """Return the namespaces in which the operator must be able to list the resource.

        The operator does not do without its primary resources: then it ends and says why.
        """
        return () if resource in self._primaries else self._scopes(resource)

    def _scopes(self, resource: Resource[Any]) -> Sequence[str]:
        """Return the namespaces in which to watch it, empty for all."""
        everywhere = not self._namespaces or not resource.namespaced
        return ("",) if everywhere else self._namespaces

    def _watch(self, resource: Resource[Any], watch: ResourceWatch) -> list[Cache]:
        """Create the caches of a resource; nothing is read from them yet."""
        return [
            self._add(CacheScope(resource, namespace, watch.label_selector), watch)
            for namespace in self._scopes(resource)
        ]

    def _add(self, scope: CacheScope, watch: ResourceWatch) -> Cache:
        resource, namespace = scope.resource, scope.namespace
        begins = partial(self._on_watch, resource, namespace)
        informer = SharedInformer(
            str(scope),
            ResourceSource(
                self._client,
                resource,
                namespace,
                scope.label_selector,
                on_watch=begins if resource in self._primaries else None,
            ),
            Codec(
                resource.view,
                kind=resource.kind,
                namespace=namespace,
                namespaced=resource.namespaced,
            ),
            clock=self._clock,
            rng=self._rng,
            indexes=watch.indexes,
            metrics=self._metrics(scope),
        )
        cache = Cache(scope, informer, CacheBarrier(self._client, scope, informer))
        overlay = self._expectations.overlay(resource)
        informer.on_change(partial(self._changed, cache, overlay))
        informer.on_error(cache.note_error)
        self._added.append(cache)
        if self._tasks is not None:
            self._start(cache, self._tasks)
        return cache

    def _start(self, cache: Cache, tasks: asyncio.TaskGroup) -> None:
        informer = cache.informer
        cache.run = tasks.create_task(informer.run(), name=f"informer {informer.name}")

    async def _remove(self, cache: Cache) -> None:
        """Stop an informer and forget its cache."""
        self._added.remove(cache)
        if cache.run is not None:
            cache.run.cancel()
            await asyncio.wait([cache.run])

    def _publish(self, cache: Cache, watch: ResourceWatch) -> None:
        """Let the kinds read from a cache."""
        self._expectations.overlay(cache.scope.resource).add_cache(
            cache.scope.namespace,
            cache.informer.lister,
            watch.indexes,
            selective=bool(cache.scope.label_selector),
            quarantined=cache.informer.quarantined,
        )
        self.caches.append(cache)

    def _changed(
        self, cache: Cache, overlay: Overlay[Any], changes: list[Notification[Any]], revision: str
    ) -> None:
        """Compare what was expected with what a store shows now; report what it cannot decode."""
        for change in changes:
            match change:
                case Deleted(obj):
                    self._expectations.observe_delete(overlay.resource, obj)
                    continue
                case Updated(old, obj):
                    self._expectations.observe_owner_change(overlay.resource, old, obj)
                case Added(obj):
                    pass
            if overlay.expectations:
                overlay.observe_change(obj.metadata.key)
        overlay.observe_revision(cache.scope.namespace, revision)
        if cache.informer.quarantined or cache.reported:
            for odd in cache.newly_quarantined():
                if self._on_quarantine is not None:
                    self._on_quarantine(cache.scope.resource, odd)

    def _relist(self, resource: Resource[Any], sign: str) -> None:
        """List a resource at quorum: the server may have gone back in time (EXP-45)."""
        for cache in self.caches:
            if cache.scope.resource == resource:
                cache.informer.relist(sign)

    def _subscribe(self, resource: Resource[Any], handler: Handler[Any], name: str) -> None:
        for cache in self.caches:
            if cache.scope.resource == resource:
                cache.informer.add_handler(handler, name=name)

    def _subscribe_all(self, resource: Resource[Any], watch: ResourceWatch) -> None:
        """Subscribe all handlers that want an optional resource whose caches are published."""
        if resource not in self._primaries:
            self._dispensable[resource] = watch
        for subscribed, handler, name in self._subscribers:
            if subscribed == resource:
                self._subscribe(resource, handler, name)

    def _is_served(self, key: str) -> bool:
        """Return whether the namespace of a key is watched."""
        return not self._namespaces or key.rpartition("/")[0] in {"", *self._namespaces}

    def _uid_of(self, resource: Resource[Any], key: str) -> str | None:
        """Return the uid of a primary; None if the primary or its resource is not cached."""
        reads = self._expectations.reader
        with suppress(ObjectUnreadable):
            owner = reads.get(resource, key) if reads.serves(resource) else None
            return owner.metadata.uid if owner is not None else None
        return None

    def _referring(
        self, primary: Resource[Any], by: References[Any], key: str
    ) -> Sequence[KubeObject]:
        """Return the objects that refer to a key; none if the API server lacks their resource."""
        reads, resource = self._expectations.reader, by.through or primary
        return reads.by_index(resource, by.index, key) if reads.serves(resource) else ()
