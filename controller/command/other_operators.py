"""Looks for other operators of the same clusters that no lease keeps apart.

A cluster has no list of its operators, so this module looks for signs: pods with the labels of
KubeRay's, Kaito's or Manta's chart, KubeRay's lease while it is being renewed, and the names of
KubeRay and Kaito in the `managedFields` of objects written since this process started. Kaito's
operator is looked for only if this one serves Workspaces.
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
from controller.ray.api.raycronjob import RAYCRONJOBS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
    from datetime import datetime

    from prometheus_client import CollectorRegistry

    from controller.kube.client import Client
    from controller.kube.resources import Resource

KUBERAY: Final = "kuberay"
KAITO: Final = "kaito"
MANTA: Final = "manta"

_INTERVAL: Final = 300.0
"""Seconds between two searches."""

_POD_SIGNS: Final = (
    ("app.kubernetes.io/component=kuberay-operator", KUBERAY, ""),
    ("app.kubernetes.io/name=kuberay-operator", KUBERAY, ""),
    ("app.kubernetes.io/name=workspace", KAITO, "kaito"),
    ("app.kubernetes.io/name=manta-operator", MANTA, ""),
)
"""A label, whose it is, and what an image has in its name: Kaito's label may be anybody's."""
_LEASE: Final = "ray-operator-leader"
_LEASE_LASTS: Final = timedelta(minutes=1)
"""KubeRay renews its lease every few seconds."""

_MANAGERS: Final = {KUBERAY: "kuberay-operator", KAITO: "kaito-workspace"}
"""The names under which they write."""

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
            lease keeps operators there apart, but not Kaito's, which has another.
        workspaces: whether this process serves Workspaces.
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
        workspaces: bool = False,
        wall: Callable[[], datetime],
        registry: CollectorRegistry,
    ) -> None:
        self._client = client
        self._namespaces = tuple(namespaces) or ("",)
        self._own_pod = own_pod
        self._lease_in = lease_in
        self._kinds = (KUBERAY, MANTA, KAITO) if workspaces else (KUBERAY, MANTA)
        self._written: dict[str, tuple[Resource[Any], ...]] = {
            KUBERAY: (RAYCLUSTERS, RAYJOBS, RAYSERVICES, RAYCRONJOBS),
            KAITO: _of_kaito() if workspaces else (),
        }
        self._wall = wall
        self._started = wall()
        self._told: dict[str, str] = {}
        self._metric = Gauge(
            "manta_other_operators",
            "Signs of other operators that serve the same clusters",
            ("kind",),
            registry=registry,
        )
        for kind in self._kinds:
            self._metric.labels(kind).set(0)

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(_INTERVAL)

    async def look(self) -> None:
        """Look once and report what was found."""
        found = [sign async for sign in self._signs()]
        for kind in self._kinds:
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
            for look in self._looks(namespace):
                try:
                    for sign in await look:
                        yield sign
                except Exception as error:  # noqa: BLE001  no odd object may end the looking
                    _log.debug("operator.look_failed", namespace=namespace, error=str(error))

    def _looks(self, namespace: str) -> Iterator[Awaitable[list[tuple[str, str]]]]:
        """Yield one read for each sign, so that a failed read does not hide the others."""
        for selector, kind, image in _POD_SIGNS:
            if kind in self._kinds:
                yield self._pods(namespace, selector, kind, image)
        yield self._leases(namespace)
        for kind, resources in self._written.items():
            for resource in resources:
                yield self._recent_writes(resource, namespace, kind)

    async def _pods(
        self, namespace: str, selector: str, kind: str, image: str
    ) -> list[tuple[str, str]]:
        pods = await self._client.list(PODS, namespace, label_selector=selector)
        return [
            (kind, f"pod {pod.metadata.key}")
            for pod in pods.items
            if pod.status.phase in {"Pending", "Running"}
            and pod.metadata.name != self._own_pod
            and (kind == KAITO or pod.metadata.namespace != self._lease_in)
            and any(image in container.image for container in pod.spec.containers)
        ]

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

    async def _recent_writes(
        self, resource: Resource[Any], namespace: str, kind: str
    ) -> list[tuple[str, str]]:
        manager = _MANAGERS[kind]
        query = {"limit": str(_SAMPLE)}
        listed = await self._client.request_json("GET", resource.path(namespace), query=query)
        return [
            (kind, f"{resource.kind} {meta['namespace']}/{meta['name']}, written by {manager}")
            for meta in (obj["metadata"] for obj in listed["items"])
            if any(
                entry.get("manager") == manager and self._is_since(entry.get("time"), self._started)
                for entry in meta.get("managedFields", ())
            )
        ]

    @staticmethod
    def _is_since(text: Any, start: datetime) -> bool:
        moment = time_of(text)
        return moment is not None and moment > start


def _of_kaito() -> tuple[Resource[Any], ...]:
    """Return the kinds that Kaito's operator serves; few clusters have them."""
    from controller.kaito.api.inferenceset import INFERENCE_SETS  # noqa: PLC0415
    from controller.kaito.api.workspace import WORKSPACES  # noqa: PLC0415

    return WORKSPACES, INFERENCE_SETS
