"""Mounts the volumes of one pod and keeps them up to date."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from controller.devcluster.processes.containers.grace_period import RECHECK_SECONDS, wait_at_most
from controller.devcluster.processes.pods.pod_requests import API_RETRY
from controller.devcluster.processes.specification.environment import InvalidConfiguration
from controller.devcluster.processes.volumes.volumes import Volumes
from controller.kube.errors import KubeError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from controller.devcluster.processes.pod_runtime import PodRuntime
    from controller.devcluster.processes.specification.downward_api import DownwardValues
    from controller.devcluster.processes.specification.specification import SpecifiedPod
    from controller.kube.objects import ObjectMeta


class VolumeManager:
    """Fills the volumes of one pod from objects and from its metadata.

    Args:
        runtime: reads the objects, and reports their changes.
        pod: the pod.
        meta: its metadata in the cache.
        root: folder of the pod, for all that is on disk.
        downward: values that the machine adds.
        record_event: called with type, reason and message.

    Attributes:
        volumes: the directories.
    """

    def __init__(
        self,
        runtime: PodRuntime,
        pod: SpecifiedPod,
        meta: ObjectMeta,
        *,
        root: Path,
        downward: DownwardValues,
        record_event: Callable[[str, str, str], None],
    ) -> None:
        folders = runtime.dirs
        self.volumes = Volumes(pod, root, folders.memory / meta.uid, folders.claims)
        self._sources = runtime.sources
        self._meta = meta
        self._meta_changed = asyncio.Event()
        self._downward = downward
        self._record_event = record_event

    def seen(self, meta: ObjectMeta) -> None:
        """Update the metadata from the cache."""
        if (meta.labels, meta.annotations) != (self._meta.labels, self._meta.annotations):
            self._meta_changed.set()
        self._meta = meta

    async def mount(self) -> None:
        """Create the volumes as soon as possible."""
        while True:
            with self._sources.watch(self._meta.namespace, self.volumes.sources) as changed:
                try:
                    await self._fill()
                except InvalidConfiguration as error:
                    self._record_event("Warning", "FailedMount", str(error))
                    await wait_at_most(changed, RECHECK_SECONDS)
                except KubeError as error:
                    self._record_event("Warning", "FailedMount", f"cannot read volumes: {error}")
                    await asyncio.sleep(API_RETRY)
                else:
                    return

    async def refresh(self) -> None:
        """Update volumes that come from objects or the pod's metadata, until cancelled."""
        with self._sources.watch(self._meta.namespace, self.volumes.sources) as changed:
            while True:
                await _wait_for_any(changed, self._meta_changed)
                changed.clear()
                self._meta_changed.clear()
                try:
                    await self._fill()
                except (InvalidConfiguration, KubeError) as error:
                    self._record_event("Warning", "FailedMount", str(error))

    async def _fill(self) -> None:
        data = await self._sources.read(self._meta.namespace, self.volumes.sources)
        self.volumes.prepare(self._meta, self._downward, data)


async def _wait_for_any(*events: asyncio.Event) -> None:
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
