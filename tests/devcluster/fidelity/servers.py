"""The two servers: an embedded one, and a real one without controllers of its own."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp

from tests.devcluster.apiserver.support import EmbeddedApi, RealApi
from tests.devcluster.fidelity.custom import DEFINITIONS
from tests.devcluster.fidelity.run import Player
from tests.lab.control_plane import control_plane, plane_in


@contextlib.asynccontextmanager
async def embedded_player() -> AsyncIterator[Player]:
    """An embedded server that knows the custom kinds."""
    api = EmbeddedApi(tracks_all_writers=True)

    async def compact() -> None:
        api.server.compact()

    for definition in DEFINITIONS:
        await api.define(definition)
    try:
        yield Player(api, compact)
    finally:
        await api.server.aclose()


@contextlib.asynccontextmanager
async def real_player() -> AsyncIterator[Player]:
    """A real server that knows the custom kinds.

    `MANTA_FIDELITY_SERVER`, the folder of a server that already runs, saves its start.
    """
    running = os.environ.get("MANTA_FIDELITY_SERVER")
    with contextlib.ExitStack() as stack:
        if running:
            plane = plane_in(Path(running))
        else:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="manta-real-")))
            plane = stack.enter_context(control_plane(folder, controllers=False))
        api = RealApi(str(plane.kubeconfig))

        async def compact() -> None:
            """Compact etcd at its current revision, as the API server does every five minutes."""
            async with aiohttp.ClientSession() as session:
                status = await session.post(f"{plane.etcd}/v3/maintenance/status", json={})
                revision = (await status.json())["header"]["revision"]
                await session.post(
                    f"{plane.etcd}/v3/kv/compaction", json={"revision": revision, "physical": True}
                )

        for definition in DEFINITIONS:
            await api.define(definition)
        try:
            yield Player(api, compact)
        finally:
            await api.aclose()
