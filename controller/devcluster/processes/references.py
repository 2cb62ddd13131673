"""What a pod refers to and is not there, as a kubelet finds out when it starts the pod.

For simulated pods, which need the objects for nothing else. It reads and judges them as pods that
are processes do.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from controller.devcluster.nodes.simulated_kubelet import MissingReference
from controller.devcluster.processes.environment import (
    CONFIG_MAP,
    SECRET,
    DownwardValues,
    InvalidConfiguration,
    SourceReference,
    env_sources,
    invocation,
)
from controller.devcluster.processes.images import Image
from controller.devcluster.processes.specification import SPECIFIED_PODS
from controller.devcluster.processes.volume_sources import (
    Sources,
    is_made_of_objects,
    volume_files,
    volume_sources,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controller.devcluster.nodes.components import ComponentContext
    from controller.devcluster.nodes.pods import KubeletPod
    from controller.devcluster.processes.specification import SpecifiedPod

_Data = dict[SourceReference, "Mapping[str, bytes] | None"]

_IMAGE: Final = Image(Path("/"))
_DOWNWARD: Final = DownwardValues(pod_ip="10.244.0.1", host_ip="172.18.0.2", cpus=1, memory=1 << 30)


class References:
    """Reads the config maps and secrets of pods that are about to start.

    Args:
        context: client and caches.
    """

    def __init__(self, context: ComponentContext) -> None:
        self._client = context.client
        self._sources = Sources(context)

    async def missing(self, seen: KubeletPod) -> MissingReference | None:
        """Return the first thing that a pod lacks to start; None if it may start.

        Raises:
            controller.kube.errors.KubeError: an object could not be read.
        """
        pod = await self._client.get(SPECIFIED_PODS, seen.metadata.namespace, seen.metadata.name)
        for volume in filter(is_made_of_objects, pod.spec.volumes):
            data = await self._read(pod, volume_sources(volume, pod))
            try:
                volume_files(volume, pod, pod.metadata, _DOWNWARD, data)
            except InvalidConfiguration as error:
                text = f'MountVolume.SetUp failed for volume "{volume.name}" : {error}'
                return MissingReference(text)
        for container in (*pod.spec.init_containers, *pod.spec.containers):
            data = await self._read(pod, env_sources(container))
            try:
                invocation(pod, container, _IMAGE, downward=_DOWNWARD, sources=data, given={})
            except InvalidConfiguration as error:
                return MissingReference(str(error), container.name)
        return None

    async def _read(self, pod: SpecifiedPod, wanted: Iterable[SourceReference]) -> _Data:
        """Return the data of config maps and secrets; tokens and authorities count as there."""
        objects = {each for each in wanted if each.kind in {CONFIG_MAP, SECRET}}
        found: _Data = {each: {"data": b""} for each in wanted}
        return found | await self._sources.read(pod.metadata.namespace, objects)
