"""Confirms a cache against a quorum read before anything is written (EXP-27).

A cache that was filled from an API server's own cache, or under an earlier leader, may be older
than the last write of the previous leader. One cheap list returns the current revision. A busy
store reaches it with its next event; a quiet one would wait for a bookmark for up to a minute, so
after a second its contents are compared instead. A store that is equal to that list advances to its
revision: what its watch has yet to send up to there is history, and would show again what came and
went in between. Only metadata is read, so that an object that does not fit its type does not
prevent the start.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from informers import is_older

if TYPE_CHECKING:
    from controller.kube.client import Client
    from controller.kube.objects import KubeObject, ObjectList
    from controller.kube.resources import Resource
    from informers import SharedInformer

REVISION_TIMEOUT = 1.0
"""Seconds to wait for the store to reach the revision before contents are compared."""

PAGE_SIZE = 500


@dataclass(frozen=True, slots=True)
class CacheScope:
    """The objects that an informer watches."""

    resource: Resource[Any]
    namespace: str = ""
    label_selector: str = ""

    @property
    def name(self) -> str:
        """Name of the informer: `pods`, or `pods/default` for one namespace."""
        return f"{self.resource}/{self.namespace}" if self.namespace else str(self.resource)


class CacheBarrier:
    """Waits until one informer's store has seen everything that was written before the call.

    Args:
        client: for the quorum reads.
        selection: what the informer watches.
        informer: must have synced.
    """

    def __init__(
        self, client: Client, selection: CacheScope, informer: SharedInformer[Any]
    ) -> None:
        self._client = client
        self._selection = selection
        self._informer = informer
        self._advanced = asyncio.Event()
        informer.on_advance(lambda _revision: self._advanced.set())

    async def wait(self) -> None:
        """Return when the store is at least as new as the start of this call.

        Raises:
            KubeError: the quorum read failed.
        """
        page = await self._list(limit=1)
        try:
            async with asyncio.timeout(REVISION_TIMEOUT):
                await self._wait_for_revision(page.resource_version)
        except TimeoutError:
            await self._wait_for_contents()

    async def _wait_for_revision(self, revision: str) -> None:
        while is_older(self._informer.resource_version, revision):
            await self._wait_for_advance()

    async def _wait_for_contents(self) -> None:
        """Wait until the store is as new as a quorum list, by revision or by contents."""
        wanted, revision = await self._snapshot()
        while is_older(self._informer.resource_version, revision):
            if self._shows(wanted):
                self._informer.advance(revision)
            else:
                await self._wait_for_advance()

    def _shows(self, wanted: dict[str, str]) -> bool:
        """True if the store holds every listed object as it was listed, and no others."""
        objects = self._informer.lister.list()
        held = {each.metadata.key: each.metadata.resource_version for each in objects}
        for key, odd in self._informer.quarantined.items():
            if key:
                held[key] = odd.revision or wanted.get(key, "")
        return held == wanted

    async def _snapshot(self) -> tuple[dict[str, str], str]:
        found: dict[str, str] = {}
        continue_ = ""
        while True:
            page = await self._list(limit=PAGE_SIZE, continue_=continue_)
            for obj in page.items:
                found[obj.metadata.key] = obj.metadata.resource_version
            continue_ = page.continue_
            if not continue_:
                return found, page.resource_version

    async def _wait_for_advance(self) -> None:
        self._advanced.clear()
        await self._advanced.wait()

    async def _list(self, *, limit: int, continue_: str = "") -> ObjectList[KubeObject]:
        selection = self._selection
        return await self._client.list_metadata(
            selection.resource,
            selection.namespace,
            label_selector=selection.label_selector,
            limit=limit,
            continue_=continue_,
        )
