"""Volume claims: each is bound at once to a directory, which is removed with the claim."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from controller.kube.errors import Conflict, NotFound
from controller.kube.resources import CLAIMS
from informers import last_state

if TYPE_CHECKING:
    from pathlib import Path

    from controller.devcluster.nodes.components.component_context import ComponentContext
    from controller.kube.objects import PersistentVolumeClaim
    from informers import Tombstone

_BOUND = "Bound"


class Claims:
    """Binds claims, and removes the directories of deleted ones.

    Args:
        context: client and caches.
        root: folder of the folders, which are named by the uids of claims.
    """

    def __init__(self, context: ComponentContext, root: Path) -> None:
        self._client = context.client
        self._root = root
        self._loop = context.control_loop("bound-claims", self._sync)
        informer = context.caches.informer(CLAIMS)
        informer.add_handler(self, name="bound-claims")
        self._claims = informer.lister
        self._deleted: dict[str, str] = {}

    async def run(self) -> None:
        """Work until cancelled."""
        await self._loop.run()

    def on_add(self, obj: PersistentVolumeClaim, *, initial: bool) -> None:
        """Handle a new claim."""
        del initial
        self._loop.add(obj.metadata.key)

    def on_update(self, old: PersistentVolumeClaim, new: PersistentVolumeClaim) -> None:
        """Handle a claim that was replaced by another of the same name."""
        if old.metadata.uid != new.metadata.uid:
            self._deleted[old.metadata.uid] = old.metadata.key
            self._loop.add(new.metadata.key)

    def on_delete(self, obj: PersistentVolumeClaim | Tombstone[PersistentVolumeClaim]) -> None:
        """Handle a deleted claim, which no pod uses any more."""
        meta = last_state(obj).metadata
        self._deleted[meta.uid] = meta.key
        self._loop.add(meta.key)

    async def _sync(self, key: str) -> float | None:
        for uid in [uid for uid, name in self._deleted.items() if name == key]:
            await asyncio.to_thread(shutil.rmtree, self._root / uid, ignore_errors=True)
            del self._deleted[uid]
        claim = self._claims.get(key)
        if claim is None:
            return None
        meta, spec = claim.metadata, claim.spec
        status: dict[str, Any] = {
            "phase": _BOUND,
            "accessModes": list(spec.access_modes),
            "capacity": {"storage": (spec.resources.requests or {}).get("storage", "0")},
        }
        body = {"metadata": {"uid": meta.uid}, "status": status}
        with suppress(NotFound, Conflict):  # deleted or replaced: its event follows
            await self._client.merge_patch(
                CLAIMS, meta.namespace, meta.name, body, subresource="status"
            )
        return None
