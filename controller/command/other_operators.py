"""Looks for other operators of the same clusters that no lease keeps apart.

A cluster has no list of its operators, so this module looks for signs: pods with the labels of
KubeRay's, Kaito's or Manta's chart, KubeRay's lease while it is being renewed, the names of
KubeRay and Kaito in the `managedFields` of objects written since this process started, and events
that another process reports while this one leads. Kaito's operator is looked for only if this one
serves Workspaces.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any, Final

import structlog
from prometheus_client import CollectorRegistry, Gauge

from controller.apimachinery.conditions import CLOCK_SKEW, time_of
from controller.apimachinery.custom_object import dig
from controller.kube.client import Client
from controller.kube.errors import Forbidden
from controller.kube.resources import EVENTS, PODS, Resource
from controller.ray.api import RAYCLUSTERS, RAYJOBS, RAYSERVICES
from controller.ray.api.raycronjob import RAYCRONJOBS

KUBERAY: Final = "kuberay"
KAITO: Final = "kaito"
MANTA: Final = "manta"

_INTERVAL: Final = 300.0
"""Seconds between two searches."""

_RECENT: Final = timedelta(seconds=2 * _INTERVAL)
"""Age of the oldest events that say that another process is at work."""

_ELECTS_NOBODY: Final = "--enable-leader-election=false"
"""The argument, KubeRay's and Manta's, of an operator that heeds no lease."""

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

_EVENTS: Final = 500
"""Events of a controller that are read."""

_REMEDY: Final = (
    "only one operator may serve a namespace: stop the other one, limit both to different "
    "namespaces, or use `manta take-over` or `manta hand-back`"
)

_log = structlog.stdlib.get_logger("manta.operator")


class OtherOperators:
    """Looks at the start and every five minutes; logs a warning and sets `manta_other_operators`.

    The lease in the namespace `lease_in` keeps operators there apart, but not Kaito's, which has
    another, nor one that runs without election. Events of this process have its `instance` and one
    of its `reporters`, whose names KubeRay's have too; it leads since `leads_since`.
    """

    def __init__(
        self,
        client: Client,
        namespaces: Iterable[str],
        *,
        own_pod: str,
        lease_in: str = "",
        workspaces: bool = False,
        instance: str = "",
        reporters: Iterable[str] = (),
        leads_since: Callable[[], datetime | None] = lambda: None,
        wall: Callable[[], datetime],
        registry: CollectorRegistry,
    ) -> None:
        self._client = client
        self._namespaces = tuple(namespaces) or ("",)
        self._own_pod = own_pod
        self._lease_in = lease_in
        self._instance = instance
        self._reporters = tuple(reporters)
        self._leads_since = leads_since
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
        """Yield each sign as the kind of operator and a sentence, leaving out unreadable ones."""
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
        for reporter in self._reporters:
            yield self._events(namespace, reporter)
        for kind, resources in self._written.items():
            for resource in resources:
                yield self._recent_writes(resource, namespace, kind)

    async def _pods(
        self, namespace: str, selector: str, kind: str, image: str
    ) -> list[tuple[str, str]]:
        query = {"labelSelector": selector}
        pods = await self._client.request_json("GET", PODS.path(namespace), query=query)
        return [
            (kind, f"pod {meta['namespace']}/{meta['name']}")
            for pod in pods["items"]
            if (meta := pod["metadata"])["name"] != self._own_pod
            and pod.get("status", {}).get("phase") in {"Pending", "Running"}
            and (kind == KAITO or not self._stands_by(pod))
            and any(image in each.get("image", "") for each in pod["spec"]["containers"])
        ]

    def _stands_by(self, pod: dict[str, Any]) -> bool:
        """Return whether the pod of an operator works only while it holds the lease."""
        arguments = (word for each in pod["spec"]["containers"] for word in each.get("args") or ())
        return pod["metadata"]["namespace"] == self._lease_in and _ELECTS_NOBODY not in arguments

    async def _events(self, namespace: str, reporter: str) -> list[tuple[str, str]]:
        """Return events that another process has reported since this one leads."""
        since = self._leads_since()
        if since is None:
            return []
        query = {"fieldSelector": f"reportingController={reporter}", "limit": str(_EVENTS)}
        try:
            listed = await self._client.request_json("GET", EVENTS.path(namespace), query=query)
        except Forbidden:
            self._reporters = ()  # KubeRay's role: it is not asked again
            return []
        start = max(since + CLOCK_SKEW, self._wall() - _RECENT)
        return [
            _reported_by(event)
            for event in listed["items"]
            if event.get("reportingInstance") != self._instance
            and self._is_since(_last_time(event), start)
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


def _last_time(event: dict[str, Any]) -> Any:
    """Return the time at which an event was reported last; KubeRay's have it in an old field."""
    last = dig(event, "series", "lastObservedTime")
    return last or event.get("eventTime") or event.get("deprecatedLastTimestamp")


def _reported_by(event: dict[str, Any]) -> tuple[str, str]:
    """Return the kind of the operator that has reported an event, and a sentence."""
    if event.get("eventTime"):
        return MANTA, f"events of another process, {event.get('reportingInstance')}"
    return KUBERAY, f"events of {event['reportingController']}"


def _of_kaito() -> tuple[Resource[Any], ...]:
    """Return the kinds that Kaito's operator serves; few clusters have them."""
    from controller.kaito.api.inferenceset import INFERENCE_SETS  # noqa: PLC0415
    from controller.kaito.api.workspace import WORKSPACES  # noqa: PLC0415

    return WORKSPACES, INFERENCE_SETS
