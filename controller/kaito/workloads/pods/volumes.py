"""Volumes of model servers and tuning, each with its mount."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controller.kaito.api import labels
from controller.kaito.presets import WEIGHTS_PATH, disk_request
from controller.kaito.workloads.pods.pod_parts import PodParts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from controller.kaito.presets import Model
    from controller.kaito.workloads.pods.pod_parts import Body

# Source of names and paths: kaito-project/kaito at 056b8280, pkg/utils/common_preset.go.
WEIGHTS: Final = "model-weights-volume"
LOCAL_DISK_CLASS: Final = "kaito-local-nvme-disk"
"""The StorageClass of disks that are part of the machine."""

DATA_PATH: Final = "/mnt/data"
ADAPTER_PATH: Final = "/mnt/adapter"
_CONFIG_PATH: Final = "/mnt/config"
_CREDENTIALS: Final = ".dockerconfigjson"


def config_volume(config_map: str) -> PodParts:
    """Return the options of a ConfigMap; nothing if none is named."""
    if not config_map:
        return PodParts()
    return _volume("config-volume", _CONFIG_PATH, {"configMap": {"name": config_map}})


def shared_memory() -> PodParts:
    """Return memory that processes share."""
    return _volume("dshm", "/dev/shm", {"emptyDir": {"medium": "Memory"}})  # noqa: S108


def weights_mount() -> PodParts:
    """Return the mount of the model's weights, on whatever volume."""
    return PodParts(mounts=({"name": WEIGHTS, "mountPath": WEIGHTS_PATH},))


def weights_on_the_system_disk() -> PodParts:
    """Return the volume for weights that lives as long as the pod."""
    return PodParts(volumes=({"name": WEIGHTS, "emptyDir": {}},))


def weights_claim(model: Model, workspace_name: str) -> Body:
    """Return the claim template for weights on a disk of the machine."""
    return {
        "metadata": {"name": WEIGHTS, "labels": {labels.WORKSPACE: workspace_name}},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": LOCAL_DISK_CLASS,
            "resources": {"requests": {"storage": disk_request(model)}},
        },
    }


def weights_of_the_node(path: str) -> PodParts:
    """Return the weights that are in the node's image."""
    source = {"hostPath": {"path": path, "type": "Directory"}}
    return _volume("model-weights-hostpath", path, source, readOnly=True)


def data_volume(source: Mapping[str, Any] | None = None) -> PodParts:
    """Return the volume that a tuning reads."""
    return _volume("data-volume", DATA_PATH, source or {"emptyDir": {}})


def results_volume(folder: str, source: Mapping[str, Any] | None) -> PodParts:
    """Return the volume to which a tuning writes."""
    return _volume("results-volume", folder, source or {"emptyDir": {}})


def pulled_adapters() -> PodParts:
    """Return the folder of adapters that come as images."""
    return _volume("adapter-volume", ADAPTER_PATH, {"emptyDir": {}})


def adapter_volume(name: str, source: Mapping[str, Any]) -> PodParts:
    """Return an adapter that is on a volume."""
    return _volume(f"adapter-volume-{name}", f"{ADAPTER_PATH}/{name}", source)


def pull_secrets(purpose: str, secrets: Sequence[str]) -> PodParts:
    """Return credentials of registries, one file for each secret."""
    sources = [_credentials(secret, f"{secret}.json") for secret in secrets]
    path = f"/root/.docker/config.d/{purpose}"
    return _volume(f"docker-config-{purpose}", path, {"projected": _sources(sources)})


def push_secret(secret: str) -> PodParts:
    """Return credentials of the registry for results."""
    sources = [_credentials(secret, "config.json")]
    return _volume("docker-config", "/root/.docker", {"projected": _sources(sources)})


def _credentials(secret: str, file: str) -> Body:
    items = [{"key": _CREDENTIALS, "path": file}]
    return {"secret": {"name": secret, "items": items}}


def _sources(sources: list[Body]) -> Body:
    return {"sources": sources}


def _volume(name: str, path: str, source: Mapping[str, Any], **mount: Any) -> PodParts:
    volume = {**source, "name": name}
    return PodParts((volume,), ({"name": name, "mountPath": path, **mount},))
