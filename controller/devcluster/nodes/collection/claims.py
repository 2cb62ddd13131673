"""Volume claim protection: a deleted claim stays until no pod uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controller.devcluster.nodes.components.component_context import LoopComponent
from controller.devcluster.nodes.components.control import Enqueue
from controller.kube.errors import NotFound
from controller.kube.resources import CLAIMS

if TYPE_CHECKING:
    from controller.devcluster.nodes.components.component_context import ComponentContext
    from controller.kube.objects import KubeObject

FINALIZER = "kubernetes.io/pvc-protection"

_RECHECK = 1.0  # seconds until the pods are listed again
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
