"""Deletes NodeClaims and NodePools whose Workspace is gone.

They are cluster-scoped, so the garbage collector does not know their owner. The finalizer of a
Workspace deletes them; if a user has removed it, the nodes would cost money for ever.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import structlog

from controller.apimachinery.ownership import OWNER_UID
from controller.kaito.api.karpenter import NODE_CLAIMS, NODE_POOLS
from controller.kaito.api.workspace import WORKSPACES
from controller.kaito.provisioning.decision import claim_workspace_keys
from controller.kube.errors import KubeError, NotFound
from controller.kube.objects import KubeObject
from controller.runtime.plan import Event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from controller.kube.client import Client
    from controller.kube.objects import ObjectMeta
    from controller.kube.resources import Resource
    from controller.runtime.kind import CacheReader


INTERVAL: Final = 60.0
"""Seconds between two rounds. Two of them in succession must find the Workspace gone."""

_METADATA: Final = replace(WORKSPACES, view=KubeObject)
_log = structlog.stdlib.get_logger("manta.workspaces")


class OrphanCollector:
    """Deletes what was created for Workspaces that no longer exist. A `manager.Runnable`.

    An object is deleted if it names the uid of its Workspace, and two live reads of that Workspace,
    a round apart, have found nothing or another uid. An error leaves it as it is, and so does a
    namespace that is not served: the operator of that namespace collects there.

    Args:
        client: sends the requests.
        reads: the caches.
        keys: keys of all cached objects of a resource.
        record: records an event about an object.
        namespaces: those that are served; empty for all.
    """

    name = "orphans of workspaces"

    def __init__(
        self,
        client: Client,
        reads: CacheReader,
        keys: Callable[[Resource[Any]], Iterable[str]],
        record: Callable[[Resource[Any], ObjectMeta, Event], None],
        namespaces: Sequence[str] = (),
    ) -> None:
        self._client = client
        self._reads = reads
        self._keys = keys
        self._record = record
        self._namespaces = namespaces
        self._suspects: frozenset[str] = frozenset()
        self._stopped = asyncio.Event()

    async def run(self, ready: Callable[[], None]) -> None:
        """Collect once in each interval until stopped."""
        ready()
        while not self._stopped.is_set():
            try:
                async with asyncio.timeout(INTERVAL):
                    await self._stopped.wait()
            except TimeoutError:
                await self._collect()

    def stop(self) -> None:
        """Stop after the request that is under way."""
        self._stopped.set()

    async def _collect(self) -> None:
        """Delete what was suspected in the last round too; suspect the rest."""
        live: dict[str, str | None] = {}
        suspects: set[str] = set()
        found = [*self._unexplained(NODE_CLAIMS), *self._unexplained(NODE_POOLS)]
        for resource, meta in found:
            (key,) = claim_workspace_keys(KubeObject(metadata=meta))
            if self._stopped.is_set():
                return
            if key not in live:
                live[key] = await self._live_uid(key)
            if live[key] in {None, _owner(meta)}:
                continue
            if meta.uid in self._suspects:
                await self._delete(resource, meta, key)
            suspects.add(meta.uid)
        self._suspects = frozenset(suspects)

    def _unexplained(self, resource: Resource[Any]) -> Iterator[tuple[Resource[Any], ObjectMeta]]:
        """Yield objects of Workspaces that the cache does not show."""
        if not self._reads.serves(WORKSPACES):
            return
        for name in self._keys(resource):
            found = self._reads.get(resource, name)
            if found is None or found.metadata.terminating or not _owner(found.metadata):
                continue
            keys = claim_workspace_keys(found)
            if len(keys) != 1 or not self._is_served(keys[0]):
                continue
            workspace = self._reads.get(WORKSPACES, keys[0])
            if workspace is None or workspace.metadata.uid != _owner(found.metadata):
                yield resource, found.metadata

    def _is_served(self, key: str) -> bool:
        return not self._namespaces or key.rpartition("/")[0] in self._namespaces

    async def _live_uid(self, key: str) -> str | None:
        """Return the uid of a Workspace, empty if it does not exist, None if that is not known."""
        namespace, _, name = key.rpartition("/")
        try:
            return (await self._client.get(_METADATA, namespace, name)).metadata.uid or None
        except NotFound:
            return ""
        except KubeError as error:
            _log.warning("workspace.unknown", key=key, error=str(error))
            return None

    async def _delete(self, resource: Resource[Any], meta: ObjectMeta, key: str) -> None:
        try:
            await self._client.delete(resource, "", meta.name, uid=meta.uid)
        except NotFound:
            return
        except KubeError as error:
            _log.warning("orphan.not_deleted", name=meta.name, workspace=key, error=str(error))
            return
        note = f"deleted {resource.kind} {meta.name}: its Workspace {key} no longer exists"
        _log.warning("orphan.deleted", kind=resource.kind, name=meta.name, workspace=key)
        self._record(resource, meta, Event("Warning", "OrphanDeleted", "Delete", note))


def _owner(meta: ObjectMeta) -> str:
    """Return the uid of the Workspace; empty of what Kaito has made, which does not name it."""
    return (meta.labels or {}).get(OWNER_UID, "")
