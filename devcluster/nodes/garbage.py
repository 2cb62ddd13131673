"""The garbage collector, and what empties and finalizes namespaces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from msgspec import Struct

from controller.kube.client import Client
from controller.kube.errors import Conflict, NotFound, PathNotFound
from controller.kube.objects import KubeObject, Namespace, ObjectMeta, OwnerReference
from controller.kube.resources import CRDS, NAMESPACES, Resource
from devcluster.nodes.components import ComponentContext, Enqueue, LoopComponent
from devcluster.nodes.objects import KNOWN
from informers import Added, Deleted, Lister, Notification, SharedInformer, Updated, object_key


async def discover(client: Client, *, verbs: AbstractSet[str]) -> list[Resource[Any]]:
    """Return every resource that has all of `verbs`, in the version that its group prefers.

    Raises:
        controller.kube.errors.KubeError: a discovery document could not be read.
    """
    found: dict[str, Resource[Any]] = {}
    for group, version in await _versions(client):
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        try:
            document = await client.request_json("GET", path)
        except NotFound:
            continue  # withdrawn since the list of groups was made
        for entry in document["resources"]:
            resource = _resource(group, version, entry)
            if "/" not in resource.plural and verbs <= set(entry["verbs"]):
                found.setdefault(str(resource), resource)
    return list(found.values())


async def _versions(client: Client) -> list[tuple[str, str]]:
    """Return all group versions, the preferred one of each group first."""
    versions = [("", "v1")]
    for group in (await client.request_json("GET", "/apis"))["groups"]:
        preferred = group["preferredVersion"]["version"]
        others = (entry["version"] for entry in group["versions"])
        ordered = [preferred, *(version for version in others if version != preferred)]
        versions += [(group["name"], version) for version in ordered]
    return versions


def _resource(group: str, version: str, entry: dict[str, Any]) -> Resource[Any]:
    resource = Resource(
        group, version, entry["name"], entry["kind"], KubeObject, namespaced=entry["namespaced"]
    )
    return KNOWN.get(str(resource), resource)


FOREGROUND = "foregroundDeletion"
"""Finalizer of an owner that is removed only after the dependents that block it."""

ORPHAN = "orphan"
"""Finalizer of an owner whose dependents become orphans."""

_VERBS = frozenset({"list", "watch", "patch", "delete"})
_UNTIL_SYNCED = 1.0  # seconds until an owner is checked again while a cache is being filled
_UNTIL_SEEN = 5.0  # seconds until an owner is asked for again that no cache shows
_BY_OWNER = "owner uid"
_EVENTS = "Event"  # plentiful, short-lived and without owners


class ObjectId(Struct, frozen=True):
    """One object: the name of its resource (`pods`, `jobs.batch`) and its key in there."""

    resource: str
    key: str


DISCOVERY = ObjectId("", "")
"""The key of the discovery task."""


@dataclass(slots=True)
class _Owners:
    """The owner references of one object, by the state of the owners.

    Attributes:
        waiting: references to owners that wait for their dependents to be deleted.
        unseen: whether a cache lacks an existing owner, which may be deleted without an event.
    """

    solid: list[OwnerReference] = field(default_factory=list[OwnerReference])
    waiting: list[OwnerReference] = field(default_factory=list[OwnerReference])
    absent: list[OwnerReference] = field(default_factory=list[OwnerReference])
    unseen: bool = False


class GarbageCollector(LoopComponent[ObjectId]):
    """Collects dependents of every resource that can be listed, watched, patched and deleted."""

    def __init__(self, context: ComponentContext) -> None:
        self._client = context.client
        self._caches = context.caches
        self._resources: dict[str, Resource[Any]] = {}
        self._by_kind: dict[tuple[str, str], Resource[Any]] = {}
        self._informers: dict[str, SharedInformer[Any]] = {}
        self._unresolved: dict[ObjectId, None] = {}
        super().__init__("gc", context)
        crds = context.caches.informer(CRDS)
        crds.add_handler(Enqueue(self._loop.add, self._to_discover), name="gc")

    async def start(self) -> None:
        """Discover the resources.

        Raises:
            controller.kube.errors.KubeError: a discovery document could not be read.
        """
        await self._discover()

    def _to_discover(self, definition: KubeObject) -> tuple[ObjectId, ...]:
        """Look for new resources, unless that of the definition is known."""
        return () if definition.metadata.name in self._resources else (DISCOVERY,)

    async def _discover(self) -> None:
        for resource in await discover(self._client, verbs=_VERBS):
            name = str(resource)
            if name in self._resources or resource.kind == _EVENTS:
                continue
            self._resources[name] = resource
            self._by_kind[resource.group, resource.kind] = resource
            informer = self._caches.informer(resource)
            informer.add_index(_BY_OWNER, _owner_uids)
            informer.add_handler(partial(self._on_change, name), name="gc")
            self._informers[name] = informer
        for item in self._unresolved:
            self._loop.add(item)
        self._unresolved.clear()

    def _on_change(self, name: str, change: Notification[KubeObject]) -> None:
        """Enqueue what a change of an object of this resource concerns; most do not matter."""
        match change:
            case Added(obj):
                if obj.metadata.owner_references or obj.metadata.terminating:
                    self._loop.add(ObjectId(name, obj.metadata.key))
            case Updated(old, new):
                self._on_update(ObjectId(name, new.metadata.key), old.metadata, new.metadata)
            case Deleted(obj):
                for item, _ in self._dependents(obj.metadata.uid):
                    self._loop.add(item)
                self._add_owners(obj.metadata)

    def _on_update(self, item: ObjectId, old: ObjectMeta, new: ObjectMeta) -> None:
        if old.owner_references != new.owner_references:
            self._loop.add(item)
            self._add_owners(old)
        elif new.terminating and (not old.terminating or old.finalizers != new.finalizers):
            self._loop.add(item)

    def _add_owners(self, meta: ObjectMeta) -> None:
        for reference in meta.owner_references:
            resource = self._resource_of(reference)
            if resource is not None:
                namespace = meta.namespace if resource.namespaced else ""
                self._loop.add(ObjectId(str(resource), object_key(namespace, reference.name)))

    # One object.

    async def _sync(self, item: ObjectId) -> float | None:
        if item == DISCOVERY:
            await self._discover()
            self._caches.start()
            return None
        obj: KubeObject | None = self._informers[item.resource].lister.get(item.key)
        if obj is None:
            return None
        resource = self._resources[item.resource]
        try:
            if not obj.metadata.terminating:
                return await self._collect(item, resource, obj.metadata)
            if not self._knows_all_dependents():
                return _UNTIL_SYNCED
            if ORPHAN in obj.metadata.finalizers:
                await self._orphan(resource, obj.metadata)
            elif FOREGROUND in obj.metadata.finalizers:
                await self._finish_foreground(resource, obj.metadata)
        except NotFound:
            pass  # another client was faster
        return None

    async def _collect(
        self, item: ObjectId, resource: Resource[Any], meta: ObjectMeta
    ) -> float | None:
        """Collect one object; return the seconds until it must be checked again."""
        if not meta.owner_references:
            return None
        owners = await self._classify(meta)
        if owners is None:
            self._unresolved[item] = None
            return None
        if owners.solid:
            await self._drop_references(resource, meta, owners.waiting + owners.absent)
        else:
            has_dependents = any(True for _ in self._dependents(meta.uid))
            await self._delete(resource, meta, foreground=bool(owners.waiting) and has_dependents)
        return _UNTIL_SEEN if owners.unseen else None

    async def _classify(self, meta: ObjectMeta) -> _Owners | None:
        """Return the owners by state; None if one is of a kind that is not served."""
        found = _Owners()
        for reference in meta.owner_references:
            resource = self._resource_of(reference)
            if resource is None or (resource.namespaced and not meta.namespace):
                return None
            owner = self._seen(resource, meta.namespace, reference)
            if owner is None:
                owner = await self._read(resource, meta.namespace, reference)
                found.unseen = found.unseen or owner is not None
            if owner is None:
                found.absent.append(reference)
            elif owner.terminating and FOREGROUND in owner.finalizers:
                found.waiting.append(reference)
            else:
                found.solid.append(reference)
        return found

    def _seen(
        self, resource: Resource[Any], namespace: str, reference: OwnerReference
    ) -> ObjectMeta | None:
        namespace = namespace if resource.namespaced else ""
        lister: Lister[KubeObject] = self._informers[str(resource)].lister
        cached = lister.get(object_key(namespace, reference.name))
        if cached is None or cached.metadata.uid != reference.uid:
            return None
        return cached.metadata

    async def _read(
        self, resource: Resource[Any], namespace: str, reference: OwnerReference
    ) -> ObjectMeta | None:
        namespace = namespace if resource.namespaced else ""
        try:
            live: KubeObject = await self._client.get(resource, namespace, reference.name)
        except (NotFound, PathNotFound):  # or its definition has gone, and all objects with it
            return None
        return live.metadata if live.metadata.uid == reference.uid else None

    async def _delete(self, resource: Resource[Any], meta: ObjectMeta, *, foreground: bool) -> None:
        propagation = "Foreground" if foreground else "Background"
        await self._client.delete(
            resource, meta.namespace, meta.name, uid=meta.uid, propagation=propagation
        )

    async def _drop_references(
        self, resource: Resource[Any], meta: ObjectMeta, dropped: Iterable[OwnerReference]
    ) -> None:
        uids = {reference.uid for reference in dropped}
        if not uids:
            return
        kept = [_plain(ref) for ref in meta.owner_references if ref.uid not in uids]
        await self._patch(resource, meta, {"ownerReferences": kept or None})

    async def _orphan(self, resource: Resource[Any], meta: ObjectMeta) -> None:
        for item, dependent in list(self._dependents(meta.uid)):
            mine = [ref for ref in dependent.owner_references if ref.uid == meta.uid]
            try:
                await self._drop_references(self._resources[item.resource], dependent, mine)
            except NotFound:
                continue
        await self._remove_finalizer(resource, meta, ORPHAN)

    async def _finish_foreground(self, resource: Resource[Any], meta: ObjectMeta) -> None:
        blocked = False
        for item, dependent in self._dependents(meta.uid):
            self._loop.add(item)
            blocked = blocked or any(
                ref.uid == meta.uid and ref.block_owner_deletion
                for ref in dependent.owner_references
            )
        if not blocked:
            await self._remove_finalizer(resource, meta, FOREGROUND)

    async def _remove_finalizer(
        self, resource: Resource[Any], meta: ObjectMeta, finalizer: str
    ) -> None:
        kept = [name for name in meta.finalizers if name != finalizer]
        await self._patch(resource, meta, {"finalizers": kept or None})

    async def _patch(
        self, resource: Resource[Any], meta: ObjectMeta, change: Mapping[str, Any]
    ) -> None:
        precondition = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        patch = {"metadata": {**precondition, **change}}
        await self._client.merge_patch(resource, meta.namespace, meta.name, patch)

    def _knows_all_dependents(self) -> bool:
        return all(informer.has_synced for informer in self._informers.values())

    def _dependents(self, uid: str) -> Iterable[tuple[ObjectId, ObjectMeta]]:
        for name, informer in self._informers.items():
            for dependent in informer.lister.by_index(_BY_OWNER, uid):
                yield ObjectId(name, dependent.metadata.key), dependent.metadata

    def _resource_of(self, reference: OwnerReference) -> Resource[Any] | None:
        group, _, _ = reference.api_version.rpartition("/")
        return self._by_kind.get((group, reference.kind))


def _owner_uids(obj: KubeObject) -> list[str]:
    return [reference.uid for reference in obj.metadata.owner_references]


def _plain(reference: OwnerReference) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "apiVersion": reference.api_version,
        "kind": reference.kind,
        "name": reference.name,
        "uid": reference.uid,
    }
    if reference.controller is not None:
        plain["controller"] = reference.controller
    if reference.block_owner_deletion is not None:
        plain["blockOwnerDeletion"] = reference.block_owner_deletion
    return plain


_FINALIZER = "kubernetes"
_FOR_DELETION = frozenset({"list", "delete"})
_RECHECK = 1.0  # seconds until what must go first is listed again


class NamespaceLifecycle(LoopComponent[str]):
    """Deletes everything in terminating namespaces and finalizes them."""

    def __init__(self, context: ComponentContext) -> None:
        self._client = context.client
        super().__init__("namespaces", context)
        informer = context.caches.informer(NAMESPACES)
        informer.add_handler(Enqueue(self._loop.add, _terminating), name="namespaces")

    async def _sync(self, name: str) -> float | None:
        try:
            namespace = await self._client.get_raw(NAMESPACES, "", name)
            if not _is_terminating(namespace):
                return None  # a new namespace of that name, not in the cache yet
            remaining = 0
            for resource in await discover(self._client, verbs=_FOR_DELETION):
                if resource.namespaced:
                    remaining += await self._empty(resource, name)
            if remaining:
                return _RECHECK
            await self._finalize(namespace)
        except NotFound:
            pass
        return None

    async def _empty(self, resource: Resource[Any], namespace: str) -> int:
        """Delete the objects of `resource`; return their number."""
        found = await self._client.list(resource, namespace)
        for item in found.items:
            meta = item.metadata
            if meta.terminating:
                continue
            try:
                await self._client.delete(
                    resource, namespace, meta.name, uid=meta.uid, propagation="Background"
                )
            except (NotFound, Conflict):
                continue  # deleted or replaced meanwhile: the next check sees it
        return len(found.items)

    async def _finalize(self, namespace: dict[str, Any]) -> None:
        finalizers: list[str] = namespace["spec"]["finalizers"]
        kept = [entry for entry in finalizers if entry != _FINALIZER]
        body = {**namespace, "spec": {**namespace["spec"], "finalizers": kept}}
        name = namespace["metadata"]["name"]
        await self._client.replace(NAMESPACES, "", name, body, subresource="finalize")


def _terminating(namespace: Namespace) -> tuple[str, ...]:
    return (namespace.metadata.name,) if namespace.metadata.terminating else ()


def _is_terminating(namespace: dict[str, Any]) -> bool:
    """Return whether the namespace is terminating and still has our finalizer."""
    finalizers: list[str] = namespace.get("spec", {}).get("finalizers", [])
    return "deletionTimestamp" in namespace["metadata"] and _FINALIZER in finalizers
