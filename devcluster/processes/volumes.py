"""The volumes of a pod as directories, and their mounts in containers."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Final

from devcluster.nodes.components import ComponentContext
from devcluster.nodes.pods import KubeletPod
from devcluster.nodes.simulated_kubelet import MissingReference
from devcluster.processes.environment import (
    CLAIM,
    CONFIG_MAP,
    SECRET,
    Contents,
    DownwardValues,
    Image,
    InvalidConfiguration,
    SourceReference,
    env_sources,
    expand,
    invocation,
)
from devcluster.processes.pod_sandbox import Mount
from devcluster.processes.specification import (
    SPECIFIED_PODS,
    ContainerSpecification,
    Json,
    SpecifiedPod,
)
from devcluster.processes.volume_sources import (
    Sources,
    VolumeFile,
    is_made_of_objects,
    volume_files,
    volume_sources,
)


class Volumes:
    """The volumes of one pod.

    Args:
        memory: folder of the pod for volumes in memory, made when one is needed.
        claims: folder that outlives pods, for claims.
    """

    def __init__(self, pod: SpecifiedPod, root: Path, memory: Path, claims: Path) -> None:
        self._pod = pod
        self._root = root
        self._memory = memory
        self._claims = claims
        self._folders: dict[str, Path] = {}

    @property
    def sources(self) -> frozenset[SourceReference]:
        """The objects that `prepare` needs."""
        found = {
            source
            for volume in self._pod.spec.volumes
            for source in volume_sources(volume, self._pod)
        }
        claims = (volume.get("persistentVolumeClaim") for volume in self._pod.spec.volumes)
        return frozenset(found | {_claim(each) for each in claims if each})

    def prepare(self, downward: DownwardValues, sources: Contents) -> None:
        """Create the volumes that are not there yet.

        Raises:
            InvalidConfiguration: one cannot be created (yet); the message says why.
        """
        for number, volume in enumerate(self._pod.spec.volumes):
            name: str = volume["name"]
            if name in self._folders:
                continue
            try:
                self._folders[name] = self._folder(number, volume, downward, sources)
            except (InvalidConfiguration, OSError) as error:
                text = f'MountVolume.SetUp failed for volume "{name}" : {error}'
                raise InvalidConfiguration(text) from error

    def mounts(
        self, container: ContainerSpecification, variables: Mapping[str, str]
    ) -> list[Mount]:
        """Return the mounts of `container`.

        Raises:
            InvalidConfiguration: a mount names no volume, or a path outside it.
        """
        found: list[Mount] = []
        by_name: dict[str, Json] = {volume["name"]: volume for volume in self._pod.spec.volumes}
        for mount in container.volume_mounts:
            folder = self._folders.get(mount["name"])
            if folder is None:
                raise InvalidConfiguration(f'volume "{mount["name"]}" is not one of the pod')
            below = mount.get("subPath") or expand(mount.get("subPathExpr", ""), variables)
            volume = by_name[mount["name"]]
            fixed = is_made_of_objects(volume)
            claim: Json = volume.get("persistentVolumeClaim") or {}
            read_only = bool(mount.get("readOnly") or fixed or claim.get("readOnly"))
            source = _below(folder, below, make=not fixed) if below else folder
            found.append(Mount(source, mount["mountPath"], read_only))
        return found

    def remove(self) -> None:
        """Delete the files outside the pod's directory."""
        shutil.rmtree(self._memory, ignore_errors=True)

    def _folder(
        self,
        number: int,
        volume: Json,
        downward: DownwardValues,
        sources: Contents,
    ) -> Path:
        if is_made_of_objects(volume):
            folder = self._root / f"v{number}"
            write_files(folder, volume_files(volume, self._pod, downward, sources))
            return folder
        if "hostPath" in volume:
            return _host_path(volume["hostPath"])
        if "persistentVolumeClaim" in volume:
            source = _claim(volume["persistentVolumeClaim"])
            claim = sources[source]
            if claim is None:
                raise InvalidConfiguration(f"{source} not found")
            folder = self._claims / claim["uid"].decode()
        elif "emptyDir" in volume and volume["emptyDir"].get("medium") == "Memory":
            folder = self._memory / str(number)
        elif "emptyDir" in volume or "ephemeral" in volume:
            folder = self._root / f"v{number}"
        else:
            known = "emptyDir, configMap, secret, downwardAPI, projected, hostPath and claims"
            raise InvalidConfiguration(f"this kind of volume is not possible here, only {known}")
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o777)  # as the kubelet leaves them: users of containers differ
        return folder


def write_files(folder: Path, files: Mapping[str, VolumeFile]) -> None:
    """Write the files of a volume.

    Raises:
        InvalidConfiguration: a path leads out of the folder.
        OSError: the disk.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for path, file in files.items():
        if _leads_out(path):
            raise InvalidConfiguration(f"invalid path {path!r}: it leads out of the volume")
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.data)
        target.chmod(file.mode)


def _below(folder: Path, path: str, *, make: bool) -> Path:
    if _leads_out(path):
        raise InvalidConfiguration(f"invalid subPath {path!r}: it leads out of the volume")
    found = folder / path
    if not found.exists() and make:
        found.mkdir(parents=True, exist_ok=True)
        found.chmod(0o777)
    resolved = found.resolve()
    if not resolved.is_relative_to(folder.resolve()) or not resolved.exists():
        raise InvalidConfiguration(f"subPath {path!r} does not exist in the volume")
    return resolved


def _leads_out(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return not parts or path.startswith("/") or ".." in parts


def _claim(reference: Json) -> SourceReference:
    return SourceReference(CLAIM, reference["claimName"])


def _host_path(reference: Json) -> Path:
    path, type_ = Path(reference["path"]), reference.get("type", "")
    if type_ == "DirectoryOrCreate":
        path.mkdir(parents=True, exist_ok=True)
    if type_ == "FileOrCreate":
        path.touch()
    fits = {"Directory": path.is_dir, "File": path.is_file}.get(type_, path.exists)
    if not fits():
        what = {"Directory": "a directory", "File": "a file"}.get(type_, "there")
        raise InvalidConfiguration(f"hostPath type check failed: {path} is not {what}")
    return path


_IMAGE: Final = Image(Path("/"))
_DOWNWARD: Final = DownwardValues(pod_ip="10.244.0.1", host_ip="172.18.0.2", cpus=1, memory=1 << 30)


class References:
    """Reads the config maps and secrets of pods that are about to start."""

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
                volume_files(volume, pod, _DOWNWARD, data)
            except InvalidConfiguration as error:
                text = f'MountVolume.SetUp failed for volume "{volume["name"]}" : {error}'
                return MissingReference(text)
        for container in (*pod.spec.init_containers, *pod.spec.containers):
            data = await self._read(pod, env_sources(container))
            try:
                invocation(pod, container, _IMAGE, downward=_DOWNWARD, sources=data, given={})
            except InvalidConfiguration as error:
                return MissingReference(str(error), container.name)
        return None

    async def _read(self, pod: SpecifiedPod, wanted: Iterable[SourceReference]) -> Contents:
        """Return the data of config maps and secrets; tokens and authorities count as there."""
        objects = {each for each in wanted if each.kind in {CONFIG_MAP, SECRET}}
        found: dict[SourceReference, Mapping[str, bytes] | None]
        found = {each: {"data": b""} for each in wanted}
        return found | await self._sources.read(pod.metadata.namespace, objects)
