"""The log of a container while it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.kube.transport import Request

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from controller.kube.objects import Pod
    from controller.kube.transport import Transport


async def follow_log(server: Transport, pod: Pod, container: str) -> AsyncGenerator[str, None]:
    """Return the lines of a container's log, until it ends; none if the pod is gone."""
    path = f"/api/v1/namespaces/{pod.metadata.namespace}/pods/{pod.metadata.name}/log"
    query = {"container": container, "follow": "true"}
    status, _, chunks = await server.request(Request("GET", path, query))
    rest = b""
    async for chunk in chunks:
        if status == 200:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                yield line.decode(errors="replace")
