"""Looks for other operators of the same clusters, which no lease keeps apart.

There is no list of the operators of a cluster, so it looks for signs: pods with the labels of
KubeRay's chart and of Manta's, KubeRay's lease if somebody renews it, and KubeRay's name in the
`managedFields` of objects that were written since this process started.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import structlog
from prometheus_client import Gauge

from controller.apimachinery.timestamps import time_of
from controller.kube.resources import PODS
from controller.ray.api import RAYCLUSTERS, RAYJOBS, RAYSERVICES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator
    from datetime import datetime

    from prometheus_client import CollectorRegistry

    from controller.kube.client import Client
    from controller.kube.resources import Resource

KUBERAY: Final = "kuberay"
MANTA: Final = "manta"

_INTERVAL: Final = 300.0
"""Seconds between two looks."""

_POD_SIGNS: Final = {
    "app.kubernetes.io/component=kuberay-operator": KUBERAY,
    "app.kubernetes.io/name=kuberay-operator": KUBERAY,
    "app.kubernetes.io/name=manta-operator": MANTA,
}
_LEASE: Final = "ray-operator-leader"
_LEASE_LASTS: Final = timedelta(minutes=1)
"""KubeRay renews its lease every few seconds."""

_KUBERAYS_MANAGER: Final = "kuberay-operator"
_SAMPLE: Final = 20
"""Objects of a kind whose `managedFields` are read."""

_REMEDY: Final = (
    "only one operator may serve a namespace: stop the other one, limit both to different "
    "namespaces, or use `manta take-over` or `manta hand-back`"
)

_log = structlog.stdlib.get_logger("manta.operator")


class OtherOperators:
    """Looks at the start and every five minutes; logs a warning and sets `manta_other_operators`.

    Args:
        client: of the cluster.
        namespaces: that this operator serves; none means all.
        own_pod: name of the pod that this process runs in; empty outside a cluster.
        lease_in: namespace of the lease that this process competes for, empty without one. The
            lease keeps operators there apart.
        wall: the time of day.
        registry: where the metric is registered.
    """

    def __init__(
        self,
        client: Client,
        namespaces: Iterable[str],
        *,
        own_pod: str,
        lease_in: str = "",
        wall: Callable[[], datetime],
        registry: CollectorRegistry,
    ) -> None:
        self._client = client
        self._namespaces = tuple(namespaces) or ("",)
        self._own_pod = own_pod
        self._lease_in = lease_in
        self._wall = wall
        self._started = wall()
        self._told: dict[str, str] = {}
        self._metric = Gauge(
            "manta_other_operators",
            "Signs of other operators that serve the same clusters",
            ("kind",),
            registry=registry,
        )
        for kind in (KUBERAY, MANTA):
            self._metric.labels(kind).set(0)

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(_INTERVAL)

    async def look(self) -> None:
        """Look once and report what was found."""
        found = [sign async for sign in self._signs()]
        for kind in (KUBERAY, MANTA):
            signs = sorted({words for of, words in found if of == kind})
            self._metric.labels(kind).set(len(signs))
            if signs:
                self._told[kind] = "; ".join(signs)
                _log.warning(
                    "operator.not_alone", other=kind, signs=self._told[kind], remedy=_REMEDY
                )
            elif self._told.pop(kind, ""):
                _log.info("operator.alone", other=kind)

    async def _signs(self) -> AsyncIterator[tuple[str, str]]:
        """Each sign as the kind of operator and a sentence; what may not be read is left out."""
        for namespace in self._namespaces:
            for look in (self._pods, self._leases, self._writers):
                try:
                    for sign in await look(namespace):
                        yield sign
                except Exception as error:  # noqa: BLE001  no odd object may end the looking
                    _log.debug("operator.look_failed", namespace=namespace, error=str(error))

    async def _pods(self, namespace: str) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        for selector, kind in _POD_SIGNS.items():
            pods = await self._client.list(PODS, namespace, label_selector=selector)
            found += [
                (kind, f"pod {pod.metadata.key}")
                for pod in pods.items
                if pod.status.phase in {"Pending", "Running"}
                and pod.metadata.name != self._own_pod
                and pod.metadata.namespace != self._lease_in
            ]
        return found

    async def _leases(self, namespace: str) -> list[tuple[str, str]]:
        root = "/apis/coordination.k8s.io/v1"
        path = f"{root}/namespaces/{namespace}/leases" if namespace else f"{root}/leases"
        query = {"fieldSelector": f"metadata.name={_LEASE}"}
        listed = await self._client.request_json("GET", path, query=query)
        return [
            (KUBERAY, f"lease {lease['metadata']['namespace']}/{_LEASE}, held by {holder}")
            for lease in listed["items"]
            if (holder := lease.get("spec", {}).get("holderIdentity"))
            and lease["metadata"]["namespace"] != self._lease_in
            and self._is_since(lease["spec"].get("renewTime"), self._wall() - _LEASE_LASTS)
        ]

    async def _writers(self, namespace: str) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        for resource in (RAYCLUSTERS, RAYJOBS, RAYSERVICES):
            found += self._recent_writes(resource, await self._objects(resource, namespace))
        return found

    async def _objects(self, resource: Resource[Any], namespace: str) -> list[dict[str, Any]]:
        query = {"limit": str(_SAMPLE)}
        listed = await self._client.request_json("GET", resource.path(namespace), query=query)
        return listed["items"]

    def _recent_writes(
        self, resource: Resource[Any], objects: Iterable[dict[str, Any]]
    ) -> Iterator[tuple[str, str]]:
        for obj in objects:
            meta = obj["metadata"]
            for entry in meta.get("managedFields", ()):
                theirs = entry.get("manager") == _KUBERAYS_MANAGER
                if theirs and self._is_since(entry.get("time"), self._started):
                    name = f"{meta['namespace']}/{meta['name']}"
                    yield KUBERAY, f"{resource.kind} {name}, written by {_KUBERAYS_MANAGER}"

    @staticmethod
    def _is_since(text: Any, start: datetime) -> bool:
        moment = time_of(text)
        return moment is not None and moment > start
