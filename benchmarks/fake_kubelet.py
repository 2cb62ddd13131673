"""A kubelet that runs nothing: each pod is reported as running and ready when it is created.

`benchmarks.side_by_side` starts it as a process of its own, so that its cost is nobody's.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import msgspec

from controller.command.connection import connected
from controller.kube.client import Client
from controller.kube.errors import KubeError, NotFound, TransportError
from controller.kube.resources import PODS
from informers.decoding import LineSplitter

_LINE = 8 * 1024 * 1024
_BEGINNING = "0"
"""The revision from which a watch begins with all pods."""

_SINCE = "2026-01-01T00:00:00Z"


class _Named(msgspec.Struct):
    name: str = ""


class _Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


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
    """Watches all pods and reports each of them as ready, once.

    The API server ends the watch of a client that reads too slowly, as this one does on a busy
    machine. It goes on where it was: if it reported all pods again, it would load the API server,
    and the operator that sees each of them change, with what no kubelet does.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._decoder = msgspec.json.Decoder(_Event)
        self._addresses = itertools.count(1)
        self._reports: set[asyncio.Task[None]] = set()
        self._reported: set[str] = set()  # uids
        self._revision = _BEGINNING

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            try:
                await self._watch()
            except KubeError:
                self._revision = _BEGINNING
                await asyncio.sleep(1)

    async def _watch(self) -> None:
        query = {"watch": "1", "resourceVersion": self._revision, "timeoutSeconds": "3000"}
        splitter = LineSplitter(_LINE)
        async with self._client.stream(PODS.path(), query) as chunks:
            async for chunk in chunks:
                for line in splitter.feed(chunk):
                    self._seen(self._decoder.decode(line))

    def _seen(self, event: _Event) -> None:
        if event.type == "ERROR":
            self._revision = _BEGINNING
            return
        pod = event.object
        if event.type == "MODIFIED":  # all pods of the beginning, in any order, came before
            self._revision = pod.metadata.resource_version
        if pod.status.phase == "Pending" and pod.metadata.uid not in self._reported:
            self._reported.add(pod.metadata.uid)
            task = asyncio.create_task(self._report(pod))
            self._reports.add(task)
            task.add_done_callback(self._reports.discard)

    async def _report(self, pod: _Pod) -> None:
        meta = pod.metadata
        status = ready_status(pod, next(self._addresses))
        try:
            await self._client.merge_patch(
                PODS, meta.namespace, meta.name, {"status": status}, subresource="status"
            )
        except NotFound:
            return
        except TransportError:  # tried again when the pod is seen again
            self._reported.discard(meta.uid)


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
