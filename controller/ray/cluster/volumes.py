"""Volumes that Ray needs and users forget: shared memory, and scratch space for two containers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Body = dict[str, Any]


def add_shared_memory(pod_spec: Body, ray: Body, parameters: Mapping[str, str]) -> None:
    """Memory for Ray's object store at `/dev/shm`, as large as the container's memory.

    Left out if the user chose another plasma directory or mounted something there.
    """
    if "plasma-directory" in parameters or _has_mount_at(ray, "/dev/shm"):  # noqa: S108 - Ray's
        return
    source: Body = {"medium": "Memory"}
    resources = ray.get("resources", {})
    for kind in ("limits", "requests"):
        if "memory" in resources.get(kind, {}):
            source["sizeLimit"] = resources[kind]["memory"]
            break
    _add_empty_dir(pod_spec, "shared-mem", source)
    _mount(ray, "shared-mem", "/dev/shm")  # noqa: S108 - Ray's own place


def add_scratch_volume(pod_spec: Body, containers: Iterable[Body]) -> None:
    """`/tmp/ray` shared by the Ray container and the autoscaler, which writes Ray's event logs."""
    _add_empty_dir(pod_spec, "ray-logs", {})
    for container in containers:
        if not _has_mount_at(container, "/tmp/ray"):  # noqa: S108 - Ray's own place
            _mount(container, "ray-logs", "/tmp/ray")  # noqa: S108 - Ray's own place


def _has_mount_at(container: Body, path: str) -> bool:
    return any(mount.get("mountPath") == path for mount in container.get("volumeMounts", ()))


def _mount(container: Body, volume: str, path: str) -> None:
    container.setdefault("volumeMounts", []).append({"name": volume, "mountPath": path})


def _add_empty_dir(pod_spec: Body, name: str, source: Body) -> None:
    volumes: list[Body] = pod_spec.setdefault("volumes", [])
    if all(volume.get("name") != name for volume in volumes):
        volumes.append({"name": name, "emptyDir": source})
