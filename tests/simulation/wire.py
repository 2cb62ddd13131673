"""What lies between one operator process and the API server: its requests are signed, may arrive
after their sender has given up on them, and lists that accept it are answered from the past.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from controller.kube.transport import Request
from tests.simulation.referee import ACTOR, LATE

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping

    from controller.devcluster.apiserver import ApiServer
    from controller.kube.transport import Answer

DELAYS = (0.1, 1.0, 10.0, 31.0)
"""Seconds; a client gives up after 30."""


class Wire:
    """A transport for one operator.

    Args:
        server: at the other end.
        name: of the operator.
        rng: decides what is late and what is old.
        on_write: called with method, path and body of each write when it is sent.

    Attributes:
        straggling: how likely a write is to arrive late, from 0 to 1.
    """

    def __init__(
        self,
        server: ApiServer,
        name: str,
        rng: random.Random,
        on_write: Callable[[str, str, bytes | None], None],
    ) -> None:
        self._on_write = on_write
        self._server = server
        self._name = name
        self._rng = rng
        self._under_way: set[asyncio.Task[Answer]] = set()
        self.straggling = 0.0

    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        body: bytes | None,
    ) -> Answer:
        request = Request(method, path, self._from_the_past(query), headers, body)
        if method == "GET":
            return await self._send(request)
        self._on_write(method, path, body)
        if self._rng.random() >= self.straggling:
            return await self._send(request)
        late = asyncio.create_task(self._send(request, self._rng.choice(DELAYS)))
        self._under_way.add(late)
        late.add_done_callback(self._under_way.discard)
        return await asyncio.shield(late)

    def _from_the_past(self, query: Mapping[str, str]) -> Mapping[str, str]:
        """A list that is "not older than" may be as old as that."""
        oldest = query.get("resourceVersion")
        if "watch" in query or oldest is None:
            return query
        newest = self._server.store.revision
        revision = str(self._rng.randint(max(int(oldest), newest - 100, 1), newest))
        return {**query, "resourceVersion": revision, "resourceVersionMatch": "Exact"}

    async def arrived(self) -> None:
        """Wait until nothing is under way any more."""
        await asyncio.gather(*self._under_way, return_exceptions=True)

    async def _send(self, request: Request, delay: float = 0.0) -> Answer:
        await asyncio.sleep(delay)
        token = ACTOR.set(f"{self._name}{LATE if delay else ''}")
        try:
            return await self._server.request(
                request.method, request.path, request.query, request.headers, request.body
            )
        finally:
            ACTOR.reset(token)
