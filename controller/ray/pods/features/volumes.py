"""Volumes of Ray pods: shared memory and scratch space."""

from __future__ import annotations

import copy
import itertools
from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.custom_object import dig
from controller.apimachinery.template import plain_path

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controller.ray.pods.draft import PodDraft

Body = dict[str, Any]

_SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108 - Ray's own place
_SCRATCH: Final = "/tmp/ray"  # noqa: S108 - Ray's own place


def volume_name(pod_spec: Body, volume: Body, path: str) -> str:
    """Return the name of a volume for that path: its own, or another if something else has that.

    A user's volume of its name and kind is taken for it, so that users can choose its size, unless
    the Ray container mounts it elsewhere.
    """
    own: str = volume["name"]
    present = {each.get("name"): each for each in pod_spec.get("volumes", ())}
    names = itertools.chain((own,), (f"{own}-{number}" for number in itertools.count(1)))
    return next(
        name
        for name in names
        if name not in present or _serves(pod_spec, present[name], volume, path)
    )


def add_volume(pod_spec: Body, volume: Body, path: str) -> str:
    """Add a volume unless it is there; return its name, by which it is to be mounted."""
    name = volume_name(pod_spec, volume, path)
    volumes: list[Body] = pod_spec.setdefault("volumes", [])
    if all(each.get("name") != name for each in volumes):
        volumes.append(copy.deepcopy(volume) | {"name": name})
    return name


def add_mount(container: Body, mount: Body) -> None:
    """Mount a volume in a container unless something is mounted there."""
    if not has_mount_at(container, mount["mountPath"]):
        container.setdefault("volumeMounts", []).append(mount)


def has_mount_at(container: Body, path: str) -> bool:
    """Return whether a container mounts something at exactly this path, in whatever notation."""
    paths = (str(mount.get("mountPath", "")) for mount in container.get("volumeMounts", ()))
    return any(plain_path(each) == plain_path(path) for each in paths)


def add_shared_memory(draft: PodDraft) -> None:
    """Mount memory for Ray's object store at `/dev/shm`, as large as the container's memory.

    Does nothing if the user has set another plasma directory or mounts a volume there.
    """
    ray = draft.ray
    directory = draft.parameters.get("plasma-directory", _SHARED_MEMORY)
    if plain_path(directory) != _SHARED_MEMORY or has_mount_at(ray, _SHARED_MEMORY):
        return
    source: Body = {"medium": "Memory"}
    resources = ray.get("resources", {})
    for kind in ("limits", "requests"):
        if "memory" in resources.get(kind, {}):
            source["sizeLimit"] = resources[kind]["memory"]
            break
    memory = {"name": "shared-mem", "emptyDir": source}
    name = add_volume(draft.spec, memory, _SHARED_MEMORY)
    add_mount(ray, {"name": name, "mountPath": _SHARED_MEMORY})


def add_scratch_volume(pod_spec: Body, containers: Iterable[Body]) -> None:
    """Share `/tmp/ray` with the autoscaler, which writes Ray's event logs there."""
    for container in containers:
        if not has_mount_at(container, _SCRATCH):
            name = add_volume(pod_spec, {"name": "ray-logs", "emptyDir": {}}, _SCRATCH)
            add_mount(container, {"name": name, "mountPath": _SCRATCH})


def _serves(pod_spec: Body, present: Body, volume: Body, path: str) -> bool:
    """Return whether a volume of the name is what is wanted at the path."""
    mounts = pod_spec["containers"][0].get("volumeMounts", ())
    at = {
        plain_path(each.get("mountPath", ""))
        for each in mounts
        if each.get("name") == present["name"]
    }
    if at:
        return plain_path(path) in at
    return _kind(present) == _kind(volume)


def _kind(volume: Body) -> tuple[set[str], str]:
    """Return the source of a volume, and the medium if it is a directory of the node."""
    return volume.keys() - {"name"}, str(dig(volume, "emptyDir", "medium") or "")
