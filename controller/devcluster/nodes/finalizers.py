"""Controllers of finalizers: a namespace goes when it is empty, a claim when no pod uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controller.devcluster.nodes.components import Enqueue, LoopComponent
from controller.devcluster.nodes.garbage import discover
from controller.kube.errors import Conflict, NotFound
from controller.kube.resources import CLAIMS, NAMESPACES

if TYPE_CHECKING:
    from controller.devcluster.nodes.components import ComponentContext
    from controller.kube.objects import KubeObject, Namespace
    from controller.kube.resources import Resource


_FINALIZER = "kubernetes"
_VERBS = frozenset({"list", "delete"})
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
            for resource in await discover(self._client, verbs=_VERBS):
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


FINALIZER = "kubernetes.io/pvc-protection"

_ENDED = frozenset({"Failed", "Succeeded"})


class ClaimProtection(LoopComponent[tuple[str, str]]):
    """Removes the finalizer of unused claims."""

    def __init__(self, context: ComponentContext) -> None:
        self._client = context.client
        super().__init__("claims", context)
        informer = context.caches.informer(CLAIMS)
        informer.add_handler(Enqueue(self._loop.add, _released), name="claims")

    async def _sync(self, key: tuple[str, str]) -> float | None:
        namespace, name = key
        if await self._is_used(namespace, name):
            return _RECHECK
        try:
            claim = await self._client.get_raw(CLAIMS, namespace, name)
            meta = claim["metadata"]
            finalizers: list[str] = meta.get("finalizers", [])
            if "deletionTimestamp" in meta and FINALIZER in finalizers:
                meta["finalizers"] = [entry for entry in finalizers if entry != FINALIZER]
                await self._client.replace(CLAIMS, namespace, name, claim)
        except NotFound:
            pass
        return None

    async def _is_used(self, namespace: str, name: str) -> bool:
        path = f"/api/v1/namespaces/{namespace}/pods"
        pods: list[dict[str, Any]] = (await self._client.request_json("GET", path))["items"]
        return any(
            volume.get("persistentVolumeClaim", {}).get("claimName") == name
            for pod in pods
            if pod.get("status", {}).get("phase") not in _ENDED
            for volume in pod["spec"].get("volumes", [])
        )


def _released(claim: KubeObject) -> tuple[tuple[str, str], ...]:
    meta = claim.metadata
    waits = meta.terminating and FINALIZER in (meta.finalizers or ())
    return ((meta.namespace, meta.name),) if waits else ()
