"""What lies between one operator process and the API server: its requests are signed, may arrive
after their sender has given up on them, and lists are answered from the past: those that accept
it, and in bad weather those that do not.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from itertools import count

from msgspec.structs import replace

from controller.kube.transport import RawResponse, Request
from devcluster.apiserver import ApiServer
from tests.simulation.referee import ACTOR, LATE

NO_STREAMING = (
    b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","reason":"Invalid",'
    b'"message":"sendInitialEvents is forbidden for watch","code":422}'
)


REWOUND = 40
"""How many revisions old the answers of a rewound server are."""


class Wire:
    """A transport for one operator.

    Args:
        past: how many revisions old a list may be that need not be new.
        streaming: whether the server knows streaming lists.

    Attributes:
        stragglers: each so-manieth write arrives so many seconds late.
        rewound: an older state answers the lists than they accept, unless they ask for the newest.
    """

    def __init__(self, server: ApiServer, name: str, *, past: int, streaming: bool) -> None:
        self._server = server
        self._name = name
        self._past = past
        self._streaming = streaming
        self._writes = count(1)
        self._under_way: dict[asyncio.Task[RawResponse], None] = {}
        self.stragglers: list[tuple[int, float]] = []
        self.rewound = False

    async def request(self, request: Request) -> RawResponse:
        streams = "sendInitialEvents" in request.query
        request = replace(request, query=self._from_the_past(request.query))
        if streams and not self._streaming:
            return 422, {"content-type": "application/json"}, _once(NO_STREAMING)
        if request.method == "GET":
            return await self._send(request)
        number = next(self._writes)
        delay = sum(seconds for every, seconds in self.stragglers if number % every == 0)
        if not delay:
            return await self._send(request)
        late = asyncio.create_task(self._send(request, delay))
        self._under_way[late] = None
        late.add_done_callback(self._under_way.pop)
        return await asyncio.shield(late)

    def _from_the_past(self, query: Mapping[str, str]) -> Mapping[str, str]:
        """A list that is "not older than" may be as old as that."""
        oldest = query.get("resourceVersion")
        if "watch" in query or oldest is None:
            return query
        newest = self._server.store.revision
        revision = (
            max(newest - REWOUND, 1) if self.rewound else max(int(oldest), newest - self._past, 1)
        )
        return {**query, "resourceVersion": str(revision), "resourceVersionMatch": "Exact"}

    async def arrived(self) -> None:
        """Wait until nothing is under way any more."""
        await asyncio.gather(*self._under_way, return_exceptions=True)

    async def _send(self, request: Request, delay: float = 0.0) -> RawResponse:
        await asyncio.sleep(delay)
        token = ACTOR.set(f"{self._name}{LATE if delay else ''}")
        try:
            return await self._server.request(request)
        finally:
            ACTOR.reset(token)


async def _once(body: bytes) -> AsyncGenerator[bytes, None]:
    yield body
