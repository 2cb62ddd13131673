"""Confirms a cache against a quorum read before anything is written (EXP-27).

A cache that was filled from an API server's own cache, or under an earlier leader, may be older
than the last write of the previous leader. A store that was filled by a quorum read is not compared
with another one if that read began when this process already led. For any other a list returns the
current revision. If that list fits into one page, contents are compared at once. A large store that
is busy reaches the revision with its next event; a quiet one would wait for a bookmark for up to a
minute, so after a moment its contents are compared too. A store that equals that list advances to
its revision, because the older events that its watch has yet to send would replay objects that have
come and gone. Only metadata is read, so that an object that does not fit its type does not prevent
the start.
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

REVISION_TIMEOUT = 0.25
"""Seconds to wait for a large store to reach the revision before contents are compared."""

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
    """Waits until one informer's store is as new as a quorum read that began late enough.

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

    async def wait(self, since: float) -> None:
        """Return when the store shows everything that was written before that time.

        Args:
            since: time on the informer's clock, not later than now; minus infinity for always.

        Raises:
            KubeError: the quorum read failed.
        """
        read = self._informer.quorum_read
        if read is not None and read > since:
            await self._list(limit=1)  # live reads need the right to list, not only to watch
            return
        page = await self._list()
        if not page.continue_:
            await self._wait_for_contents(_revisions(page), page.resource_version)
            return
        try:
            async with asyncio.timeout(REVISION_TIMEOUT):
                await self._wait_for_revision(page.resource_version)
        except TimeoutError:
            await self._wait_for_contents(*await self._snapshot())

    async def _wait_for_revision(self, revision: str) -> None:
        while is_older(self._informer.resource_version, revision):
            await self._wait_for_advance()

    async def _wait_for_contents(self, wanted: dict[str, str], revision: str) -> None:
        """Wait until the store is as new as a quorum list, by revision or by contents."""
        while is_older(self._informer.resource_version, revision):
            if self._shows(wanted):
                self._informer.advance(revision)
            else:
                await self._wait_for_advance()

    def _shows(self, wanted: dict[str, str]) -> bool:
        """Return whether the store holds exactly the listed objects in their listed state."""
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
            page = await self._list(continue_)
            found |= _revisions(page)
            continue_ = page.continue_
            if not continue_:
                return found, page.resource_version

    async def _wait_for_advance(self) -> None:
        self._advanced.clear()
        await self._advanced.wait()

    async def _list(self, continue_: str = "", *, limit: int = PAGE_SIZE) -> ObjectList[KubeObject]:
        selection = self._selection
        return await self._client.list_metadata(
            selection.resource,
            selection.namespace,
            label_selector=selection.label_selector,
            limit=limit,
            continue_=continue_,
        )


def _revisions(page: ObjectList[KubeObject]) -> dict[str, str]:
    """Return the revisions of listed objects, by key."""
    return {obj.metadata.key: obj.metadata.resource_version for obj in page.items}
