"""Adapters of a model: each is pulled from an image before the start, or is on a volume."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.kaito.api.workspace import DataSource
from controller.kaito.workloads.pods.images import PULLER, complete_reference
from controller.kaito.workloads.pods.pod_parts import PodParts, container, variable
from controller.kaito.workloads.pods.volumes import (
    ADAPTER_PATH,
    adapter_volume,
    pull_secrets,
    pulled_adapters,
)
from controller.kaito.workloads.scripts import script

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controller.kaito.api.workspace import Adapter
    from controller.kaito.workloads.pods.pod_parts import Body


def adapter_parts(adapters: Sequence[Adapter]) -> PodParts:
    """Return the parts that the adapters add to the pod of a model server.

    The strength of an adapter is a variable with its name, as the server expects it.
    """
    on_volumes = [each for each in adapters if _source(each).volume is not None]
    pulled = [each for each in adapters if _source(each).volume is None]
    parts = pulled_adapters() if pulled else PodParts()
    for adapter in pulled:
        parts += _pulled(adapter)
    for adapter in on_volumes:
        source = _source(adapter)
        parts += adapter_volume(source.name, source.volume or {}) + _strength(adapter)
    return parts


def pull_secret_references(adapters: Sequence[Adapter]) -> list[Body]:
    """Return `imagePullSecrets` of the pod, in the order of the adapters."""
    return [
        {"name": secret} for adapter in adapters for secret in _source(adapter).image_pull_secrets
    ]


def puller(name: str, image: str, destination: str, mounts: PodParts) -> Body:
    """Return the container that puts the data of an image into a folder."""
    line = script("pull.sh", image=complete_reference(image), destination=destination)
    mounted = [dict(each) for each in mounts.mounts]
    return container(name, PULLER, command=["/bin/sh", "-c"], args=[line], volumeMounts=mounted)


def _pulled(adapter: Adapter) -> PodParts:
    source = _source(adapter)
    credentials = PodParts()
    if source.image_pull_secrets:
        credentials = pull_secrets(f"{source.name}-inference-adapter", source.image_pull_secrets)
    mounts = pulled_adapters() + credentials
    pulls = puller(f"puller-{source.name}", source.image, f"{ADAPTER_PATH}/{source.name}", mounts)
    return PodParts(volumes=credentials.volumes, init_containers=(pulls,)) + _strength(adapter)


def _strength(adapter: Adapter) -> PodParts:
    if adapter.strength is None:
        return PodParts()
    return PodParts(env=(variable(_source(adapter).name, adapter.strength),))


def _source(adapter: Adapter) -> DataSource:
    """Return the source; for an adapter without one the API server reports the error."""
    return adapter.source or DataSource()
