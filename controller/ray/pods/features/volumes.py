"""Volumes of Ray pods: shared memory and scratch space."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controller.ray.pods.draft import PodDraft

Body = dict[str, Any]

_SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108 - Ray's own place
_SCRATCH: Final = "/tmp/ray"  # noqa: S108 - Ray's own place


def add_volume(pod_spec: Body, volume: Body) -> None:
    """Add a volume unless there is one of its name."""
    volumes: list[Body] = pod_spec.setdefault("volumes", [])
    if all(present.get("name") != volume["name"] for present in volumes):
        volumes.append(volume)


def add_mount(container: Body, mount: Body) -> None:
    """Mount a volume in a container."""
    container.setdefault("volumeMounts", []).append(mount)


def add_shared_memory(draft: PodDraft) -> None:
    """Mount memory for Ray's object store at `/dev/shm`, as large as the container's memory.

    Does nothing if the user has set another plasma directory or mounts a volume there.
    """
    ray = draft.ray
    if "plasma-directory" in draft.parameters or _has_mount_at(ray, _SHARED_MEMORY):
        return
    source: Body = {"medium": "Memory"}
    resources = ray.get("resources", {})
    for kind in ("limits", "requests"):
        if "memory" in resources.get(kind, {}):
            source["sizeLimit"] = resources[kind]["memory"]
            break
    add_volume(draft.spec, {"name": "shared-mem", "emptyDir": source})
    add_mount(ray, {"name": "shared-mem", "mountPath": _SHARED_MEMORY})


def add_scratch_volume(pod_spec: Body, containers: Iterable[Body]) -> None:
    """Share `/tmp/ray` with the autoscaler, which writes Ray's event logs there."""
    for container in containers:
        if not _has_mount_at(container, _SCRATCH):
            add_volume(pod_spec, {"name": "ray-logs", "emptyDir": {}})
            add_mount(container, {"name": "ray-logs", "mountPath": _SCRATCH})


def _has_mount_at(container: Body, path: str) -> bool:
    return any(mount.get("mountPath") == path for mount in container.get("volumeMounts", ()))
