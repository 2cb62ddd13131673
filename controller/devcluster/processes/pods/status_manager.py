"""Writes one pod's status: changes are written after the previous write is answered."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

from controller.devcluster.nodes.objects.pods import PODS
from controller.devcluster.nodes.objects.statuses import status_patch, status_write
from controller.kube.errors import Conflict, Invalid, KubeError, NotFound
from informers import is_older

if TYPE_CHECKING:
    from collections.abc import Callable

    from controller.devcluster.nodes.objects.pods import KubeletPod, ReportedPodStatus
    from controller.kube.client import Client

_PAUSES = (0.2, 1.0, 5.0)  # seconds after failures in a row

_log = structlog.get_logger(__name__)


class StatusManager:
    """Keeps the status of one pod in the API server up to date, as a kubelet's status manager.

    Args:
        client: access to the API server.
        pod: the pod as last read.
        compose: computes the desired status from the stored one.
    """

    def __init__(
        self,
        client: Client,
        pod: KubeletPod,
        compose: Callable[[ReportedPodStatus], ReportedPodStatus],
    ) -> None:
        self._client = client
        self._pod = pod
        self._compose = compose
        self._due = asyncio.Event()
        self._settled = asyncio.Event()
        self._settled.set()
        self._is_gone = False

    def seen(self, pod: KubeletPod) -> None:
        """Update the pod from the API server."""
        if not is_older(pod.metadata.resource_version, self._pod.metadata.resource_version):
            self._pod = pod

    def gone(self) -> None:
        """Stop writing, because the pod was removed."""
        self._is_gone = True
        self._settled.set()

    def changed(self) -> None:
        """Handle a possible change of the status."""
        if not self._is_gone:
            self._settled.clear()
            self._due.set()

    async def settle(self) -> None:
        """Wait until all changes are written."""
        await self._settled.wait()

    async def run(self) -> None:
        """Write until cancelled."""
        failures = 0
        while True:
            await self._due.wait()
            self._due.clear()
            try:
                await self._report()
            except NotFound:
                self.gone()
            except Conflict:
                self._due.set()
                await self._look()
            except KubeError as error:
                final = isinstance(error, Invalid)
                log = _log.error if final else _log.debug
                log("status not reported", pod=self._pod.metadata.key, error=repr(error))
                self._due.set()
                await asyncio.sleep(_PAUSES[min(failures, len(_PAUSES) - 1)])
                failures += 1
            else:
                failures = 0
                if not self._due.is_set():
                    self._settled.set()

    async def _report(self) -> None:
        pod = self._pod
        patch = status_patch(pod.status, self._compose(pod.status))
        if not patch or self._is_gone:
            return
        meta = pod.metadata
        body = status_write(meta, patch)
        self.seen(
            await self._client.merge_patch(
                PODS, meta.namespace, meta.name, body, subresource="status"
            )
        )

    async def _look(self) -> None:
        """Read the pod after a conflict: it was changed or replaced."""
        meta = self._pod.metadata
        try:
            present = await self._client.get(PODS, meta.namespace, meta.name)
        except NotFound:
            self.gone()
        except KubeError:
            await asyncio.sleep(_PAUSES[0])
        else:
            if present.metadata.uid == meta.uid:
                self.seen(present)
            else:
                self.gone()
