"""Config maps, secrets, claims and tokens for pods: read live, with notification of changes.

Only metadata is cached: this process keeps no copy of a secret.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from controller.devcluster.nodes.components.control import Enqueue
from controller.devcluster.processes.specification.environment import (
    AUTHORITY,
    CLAIM,
    CONFIG_MAP,
    SECRET,
    AccountToken,
    SourceReference,
)
from controller.devcluster.processes.specification.specification import CONFIG_MAPS, SECRETS
from controller.kube.errors import NotFound
from controller.kube.objects import KubeObject
from controller.kube.resources import CLAIMS, SERVICE_ACCOUNTS, Resource

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controller.devcluster.nodes.components.component_context import ComponentContext

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
        context: client and caches.
        authority: PEM certificate that signs the API server's.
    """

    def __init__(self, context: ComponentContext, authority: bytes = b"") -> None:
        self._client = context.client
        self._authority = authority
        self._waiting: dict[tuple[str, SourceReference], set[asyncio.Event]] = {}
        for kind, resource in _WATCHED.items():
            informer = context.caches.informer(resource)
            informer.add_handler(Enqueue(self._changed, _Keys(kind)), name="kubelet")

    async def read(
        self, namespace: str, wanted: Iterable[SourceReference]
    ) -> dict[SourceReference, Mapping[str, bytes] | None]:
        """Return the present data of each, None if it does not exist.

        Raises:
            controller.kube.errors.KubeError: one could not be read.
        """
        return {source: await self._read(namespace, source) for source in wanted}

    def watch(self, namespace: str, wanted: Iterable[SourceReference]) -> SourceSubscription:
        """Return an event that is set whenever one of them has changed; close it after use."""
        return SourceSubscription(self._waiting, [(namespace, source) for source in wanted])

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


class SourceSubscription:
    """A context manager that subscribes to changes."""

    def __init__(
        self,
        registry: dict[tuple[str, SourceReference], set[asyncio.Event]],
        keys: list[tuple[str, SourceReference]],
    ) -> None:
        self._registry = registry
        self._keys = keys
        self.changed = asyncio.Event()

    def __enter__(self) -> asyncio.Event:
        """Subscribe."""
        for key in self._keys:
            self._registry.setdefault(key, set()).add(self.changed)
        return self.changed

    def __exit__(self, *exception: object) -> None:
        """Unsubscribe."""
        for key in self._keys:
            events = self._registry[key]
            events.discard(self.changed)
            if not events:
                del self._registry[key]


class _Keys:
    def __init__(self, kind: str) -> None:
        self._kind = kind

    def __call__(self, obj: Any) -> tuple[tuple[str, SourceReference]]:
        meta = obj.metadata
        return ((meta.namespace, SourceReference(self._kind, meta.name)),)
