"""What fills the volumes of pods: config maps, secrets, tokens read live, and bound claims."""

from __future__ import annotations

import asyncio
import shutil
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct

from controller.kube.errors import Conflict, NotFound
from controller.kube.objects import KubeObject, PersistentVolumeClaim
from controller.kube.resources import CLAIMS, SERVICE_ACCOUNTS, Resource
from devcluster.nodes.components import ComponentContext, Enqueue, LoopComponent
from devcluster.processes.environment import (
    ACCOUNT,
    AUTHORITY,
    CLAIM,
    CONFIG_MAP,
    SECRET,
    AccountToken,
    Contents,
    DownwardValues,
    InvalidConfiguration,
    SourceReference,
    UnsupportedFieldReference,
    field_value,
    resource_value,
)
from devcluster.processes.specification import (
    CONFIG_MAPS,
    SECRETS,
    Json,
    SpecifiedPod,
)
from informers import Added, Deleted, Notification, Updated

# Files of volumes that come from API objects: paths, contents and modes.


_USUAL_MODE = 0o644


class VolumeFile(Struct, frozen=True):
    """One file of a volume."""

    data: bytes
    mode: int


_OF_OBJECTS = {"configMap", "secret", "downwardAPI", "projected"}


def is_made_of_objects(volume: Json) -> bool:
    """Return whether `volume_files` gives the contents of this volume."""
    return not _OF_OBJECTS.isdisjoint(volume)


def volume_sources(volume: Json, pod: SpecifiedPod) -> frozenset[SourceReference]:
    """Return the objects that `volume` of a pod uses."""
    return frozenset(source for part in _parts(volume) for source in _sources(part, pod))


def _parts(volume: Json) -> list[Json]:
    """Return what a volume is made of: it is a projection itself, or has several."""
    projected = volume.get("projected")
    return [volume] if projected is None else projected.get("sources") or []


def _sources(part: Json, pod: SpecifiedPod) -> Iterator[SourceReference]:
    for kind, member in ((CONFIG_MAP, "configMap"), (SECRET, "secret")):
        if member in part:
            yield SourceReference(kind, _name(part[member]))
    if "serviceAccountToken" in part:
        yield _token(part["serviceAccountToken"], pod)
    if "clusterTrustBundle" in part:
        yield SourceReference(AUTHORITY, "")


def _name(reference: Json) -> str:
    """Return the name of a config map or secret; volumes name secrets by `secretName`."""
    return reference.get("secretName") or reference.get("name", "")


def volume_files(
    volume: Json, pod: SpecifiedPod, downward: DownwardValues, sources: Contents
) -> dict[str, VolumeFile]:
    """Return the files of a volume for which `is_made_of_objects` holds, by relative path.

    Raises:
        InvalidConfiguration: an object or key that is not optional is missing.
    """
    found: dict[str, VolumeFile] = {}
    given = (volume[member].get("defaultMode") for member in _OF_OBJECTS if member in volume)
    mode = next((each for each in given if each is not None), _USUAL_MODE)
    for part in _parts(volume):
        if "configMap" in part:
            found |= _chosen(CONFIG_MAP, part["configMap"], sources, mode)
        if "secret" in part:
            found |= _chosen(SECRET, part["secret"], sources, mode)
        if "downwardAPI" in part:
            found |= _downward(part["downwardAPI"], pod, downward, mode)
        if "serviceAccountToken" in part:
            token = part["serviceAccountToken"]
            found[token["path"]] = VolumeFile(_only(_token(token, pod), sources), mode)
        if "clusterTrustBundle" in part:
            authority = _only(SourceReference(AUTHORITY, ""), sources)
            found[part["clusterTrustBundle"]["path"]] = VolumeFile(authority, mode)
    return found


def _chosen(kind: str, reference: Json, sources: Contents, mode: int) -> dict[str, VolumeFile]:
    source, optional = SourceReference(kind, _name(reference)), bool(reference.get("optional"))
    data = sources[source]
    if data is None:
        if optional:
            return {}
        raise InvalidConfiguration(f"{source} not found")
    if not reference.get("items"):
        return {key: VolumeFile(value, mode) for key, value in data.items()}
    found: dict[str, VolumeFile] = {}
    for item in reference["items"]:
        if item["key"] in data:
            found[item["path"]] = VolumeFile(data[item["key"]], item.get("mode", mode))
        elif not optional:
            raise InvalidConfiguration(f"{source} references non-existent key: {item['key']}")
    return found


def _downward(
    reference: Json, pod: SpecifiedPod, downward: DownwardValues, mode: int
) -> dict[str, VolumeFile]:
    found: dict[str, VolumeFile] = {}
    for item in reference.get("items") or ():
        try:
            if "fieldRef" in item:
                value = field_value(item["fieldRef"], pod, downward)
            else:
                value = resource_value(item.get("resourceFieldRef") or {}, pod, None, downward)
        except UnsupportedFieldReference as error:
            raise InvalidConfiguration(f"{item['path']}: {error}") from error
        found[item["path"]] = VolumeFile(value.encode(), item.get("mode", mode))
    return found


def _token(token: Json, pod: SpecifiedPod) -> AccountToken:
    account = pod.spec.service_account_name or "default"
    meta = pod.metadata
    return AccountToken(ACCOUNT, account, meta.name, meta.uid, token.get("audience", ""))


def _only(source: SourceReference, sources: Contents) -> bytes:
    data = sources[source]
    if data is None:
        raise InvalidConfiguration(f"{source} not found")
    (value,) = data.values()
    return value


_BOUND = "Bound"


class Claims(LoopComponent[str]):
    """Binds claims, and removes the directories of deleted ones.

    Args:
        root: folder of the folders, which are named by the uids of claims.
    """

    def __init__(self, context: ComponentContext, root: Path) -> None:
        self._client = context.client
        self._root = root
        super().__init__("bound-claims", context)
        informer = context.caches.informer(CLAIMS)
        informer.add_handler(self._on_change, name="bound-claims")
        self._claims = informer.lister
        self._deleted: dict[str, str] = {}

    def _on_change(self, change: Notification[PersistentVolumeClaim]) -> None:
        match change:
            case Added(obj):
                self._loop.add(obj.metadata.key)
            case Updated(old, new) if old.metadata.uid == new.metadata.uid:
                pass
            case Updated(obj) | Deleted(obj):  # no pod uses that one any more
                self._deleted[obj.metadata.uid] = obj.metadata.key
                self._loop.add(obj.metadata.key)

    async def _sync(self, key: str) -> float | None:
        for uid in [uid for uid, name in self._deleted.items() if name == key]:
            await asyncio.to_thread(shutil.rmtree, self._root / uid, ignore_errors=True)
            del self._deleted[uid]
        claim = self._claims.get(key)
        if claim is None:
            return None
        meta, spec = claim.metadata, claim.spec
        status: dict[str, Any] = {
            "phase": _BOUND,
            "accessModes": list(spec.access_modes),
            "capacity": {"storage": (spec.resources.requests or {}).get("storage", "0")},
        }
        body = {"metadata": {"uid": meta.uid}, "status": status}
        with suppress(NotFound, Conflict):  # deleted or replaced: its event follows
            await self._client.merge_patch(
                CLAIMS, meta.namespace, meta.name, body, subresource="status"
            )
        return None


_TOKEN_SECONDS = 365 * 24 * 3600
"""Seconds for which a token is valid; no pod lives as long, so none is renewed."""

_WATCHED: Mapping[str, Resource[Any]] = {
    CLAIM: CLAIMS,
    CONFIG_MAP: Resource("", "v1", "configmaps", "ConfigMap", KubeObject),
    SECRET: Resource("", "v1", "secrets", "Secret", KubeObject),
}


class Sources:
    """Reads config maps, secrets, claims and tokens for pods; the data of a claim is its `uid`.

    Args:
        authority: PEM certificate that signs the API server's.
    """

    def __init__(self, context: ComponentContext, authority: bytes = b"") -> None:
        self._client = context.client
        self._authority = authority
        self._waiting: defaultdict[tuple[str, SourceReference], set[asyncio.Event]]
        self._waiting = defaultdict(set)
        for kind, resource in _WATCHED.items():
            informer = context.caches.informer(resource)
            informer.add_handler(Enqueue(self._changed, partial(_key, kind)), name="kubelet")

    async def read(
        self, namespace: str, wanted: Iterable[SourceReference]
    ) -> dict[SourceReference, Mapping[str, bytes] | None]:
        """Return the present data of each, None if it does not exist.

        Raises:
            controller.kube.errors.KubeError: one could not be read.
        """
        return {source: await self._read(namespace, source) for source in wanted}

    @contextmanager
    def watch(self, namespace: str, wanted: Iterable[SourceReference]) -> Generator[asyncio.Event]:
        """Yield an event that is set whenever one of them has changed."""
        changed, keys = asyncio.Event(), [(namespace, source) for source in wanted]
        for key in keys:
            self._waiting[key].add(changed)
        try:
            yield changed
        finally:
            for key in keys:
                self._waiting[key].discard(changed)
                if not self._waiting[key]:
                    del self._waiting[key]

    async def _read(self, namespace: str, source: SourceReference) -> Mapping[str, bytes] | None:
        if source.kind == AUTHORITY:
            return {"ca.crt": self._authority}
        try:
            if isinstance(source, AccountToken):
                return {"token": await self._token(namespace, source)}
            if source.kind == CLAIM:
                claim = await self._client.get(CLAIMS, namespace, source.name)
                return {"uid": claim.metadata.uid.encode()}
            if source.kind == SECRET:
                return (await self._client.get(SECRETS, namespace, source.name)).data or {}
            found = await self._client.get(CONFIG_MAPS, namespace, source.name)
        except NotFound:
            return None
        texts = {key: text.encode() for key, text in (found.data or {}).items()}
        return texts | (found.binary_data or {})

    async def _token(self, namespace: str, source: AccountToken) -> bytes:
        path = SERVICE_ACCOUNTS.path(namespace, source.name, "token")
        spec: dict[str, Any] = {
            "audiences": [source.audience] if source.audience else [],
            "expirationSeconds": _TOKEN_SECONDS,
            "boundObjectRef": {"kind": "Pod", "name": source.pod, "uid": source.uid},
        }
        body = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": spec}
        answer = await self._client.request_json("POST", path, body=body)
        return str(answer["status"]["token"]).encode()

    def _changed(self, key: tuple[str, SourceReference]) -> None:
        for event in self._waiting.get(key, ()):
            event.set()


def _key(kind: str, obj: KubeObject) -> tuple[tuple[str, SourceReference]]:
    meta = obj.metadata
    return ((meta.namespace, SourceReference(kind, meta.name)),)
