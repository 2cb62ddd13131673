"""A kubelet that runs nothing: each pod is reported as running and ready when it is created.

`benchmarks.side_by_side` starts it as a process of its own, so that its cost is nobody's.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

import msgspec

from controller.command.connection import connected
from controller.kube.errors import KubeError, NotFound, TransportError
from controller.kube.resources import PODS
from informers.decoding.lines import LineSplitter

if TYPE_CHECKING:
    from controller.kube.client import Client

_LINE = 8 * 1024 * 1024
_SINCE = "2026-01-01T00:00:00Z"


class _Named(msgspec.Struct):
    name: str = ""


class _Metadata(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class _Spec(msgspec.Struct):
    containers: list[_Named] = msgspec.field(default_factory=list[_Named])


class _Status(msgspec.Struct):
    phase: str = ""


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


class _Event(msgspec.Struct):
    type: str
    object: _Pod


class FakeKubelet:
    """Watches all pods and reports the new ones as ready."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._decoder = msgspec.json.Decoder(_Event)
        self._addresses = itertools.count(1)
        self._reports: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            try:
                await self._watch()
            except KubeError:  # it is asked again, from the beginning
                await asyncio.sleep(1)

    async def _watch(self) -> None:
        query = {"watch": "1", "resourceVersion": "0", "timeoutSeconds": "3000"}
        splitter = LineSplitter(_LINE)
        async with self._client.stream(PODS.path(), query) as chunks:
            async for chunk in chunks:
                for line in splitter.feed(chunk):
                    self._seen(self._decoder.decode(line))

    def _seen(self, event: _Event) -> None:
        if event.type in {"ADDED", "MODIFIED"} and event.object.status.phase == "Pending":
            task = asyncio.create_task(self._report(event.object))
            self._reports.add(task)
            task.add_done_callback(self._reports.discard)

    async def _report(self, pod: _Pod) -> None:
        meta = pod.metadata
        status = ready_status(pod, next(self._addresses))
        try:
            await self._client.merge_patch(
                PODS, meta.namespace, meta.name, {"status": status}, subresource="status"
            )
        except (NotFound, TransportError):
            return


def ready_status(pod: _Pod, number: int) -> dict[str, Any]:
    """The status of a pod that has run since it was created; `number` becomes its address."""
    address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    return {
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": _SINCE,
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": _SINCE}
            for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
        ],
        "containerStatuses": [
            {
                "name": container.name,
                "ready": True,
                "started": True,
                "restartCount": 0,
                "image": "none",
                "imageID": "none",
                "state": {"running": {"startedAt": _SINCE}},
            }
            for container in pod.spec.containers
        ],
    }


async def main() -> None:
    """Run on the API server that KUBECONFIG leads to."""
    async with connected("fake-kubelet", kubeconfig=None, context=None) as (client, _):
        await FakeKubelet(client).run()


if __name__ == "__main__":
    asyncio.run(main())
