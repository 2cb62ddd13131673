"""The EndpointSlices of Services: what they should be, and the controller that writes them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from controller.apimachinery.metadata import owner_reference
from controller.kube.errors import AlreadyExists, Conflict, NotFound
from controller.kube.objects import Service, ServicePort
from controller.kube.resources import SERVICES
from devcluster.nodes.components import (
    ComponentContext,
    Enqueue,
    LoopComponent,
    delete_seen,
    own_key,
    suffix,
)
from devcluster.nodes.objects import ENDPOINT_SLICES, RawEndpointSlice
from devcluster.nodes.pods import PODS, KubeletPod, PodConditionType

MOST_ENDPOINTS = 1000
"""Maximum endpoints in one slice, as the API allows."""


class Slice(Struct, frozen=True):
    """Contents of one EndpointSlice."""

    ports: list[dict[str, Any]]
    endpoints: list[dict[str, Any]]


def selects(selector: Mapping[str, str], labels: Mapping[str, str] | None) -> bool:
    """Return whether an object with `labels` is selected; an empty selector selects nothing."""
    present = labels or {}
    return bool(selector) and all(present.get(key) == value for key, value in selector.items())


def slices_of(service: Service, pods: Iterable[KubeletPod]) -> list[Slice]:
    """Return the slices of `service`: one for pods with the same port numbers, sorted by name.

    A service without pods has one empty slice, as upstream.
    """
    by_ports: dict[str, Slice] = {}
    for pod in sorted(pods, key=lambda pod: pod.metadata.name):
        if not pod.status.pod_ip or pod.is_finished:
            continue
        ports = [_port(port, pod) for port in service.spec.ports]
        known = [port for port in ports if port is not None]
        group = by_ports.setdefault(json.dumps(known, sort_keys=True), Slice(known, []))
        group.endpoints.append(_endpoint(service, pod))
    if not by_ports:
        return [Slice([], [])]
    return [
        Slice(group.ports, group.endpoints[start : start + MOST_ENDPOINTS])
        for _, group in sorted(by_ports.items())
        for start in range(0, len(group.endpoints), MOST_ENDPOINTS)
    ]


def _port(port: ServicePort, pod: KubeletPod) -> dict[str, Any] | None:
    """Return one port of the slice; None if the pod has no port of that name."""
    target = port.target_port or port.port
    number = target if isinstance(target, int) else _named_port(target, port.protocol, pod)
    if number is None:
        return None
    resolved = {"name": port.name, "port": number, "protocol": port.protocol}
    return resolved | ({"appProtocol": port.app_protocol} if port.app_protocol else {})


def _named_port(name: str, protocol: str, pod: KubeletPod) -> int | None:
    for container in pod.spec.containers:
        for port in container.ports:
            if (port.name, port.protocol) == (name, protocol):
                return port.container_port
    return None


def _endpoint(service: Service, pod: KubeletPod) -> dict[str, Any]:
    serving = pod.status.is_true(PodConditionType.READY)
    terminating = pod.metadata.terminating
    ready = service.spec.publish_not_ready_addresses or (serving and not terminating)
    return {
        "addresses": [pod.status.pod_ip],
        "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
        "nodeName": pod.spec.node_name,
        "targetRef": {
            "kind": "Pod",
            "name": pod.metadata.name,
            "namespace": pod.metadata.namespace,
            "uid": pod.metadata.uid,
        },
    }


_SERVICE_LABEL = "kubernetes.io/service-name"
_MANAGER_LABEL = "endpointslice.kubernetes.io/managed-by"
_MANAGER = "endpointslice-controller.k8s.io"
_COMMON = "app.kubernetes.io/"
_BY_LABEL = "label"
_BY_SELECTOR = "selector"
_BY_SERVICE = "service"


class EndpointSlices(LoopComponent[str]):
    """Reconciles EndpointSlices; a Service with very many pods has several."""

    def __init__(self, context: ComponentContext) -> None:
        self._client = context.client
        super().__init__("endpointslices", context)
        caches = context.caches
        services = caches.informer(SERVICES)
        services.add_index(_BY_SELECTOR, _rarest_pair)
        services.add_handler(Enqueue(self._loop.add, own_key), name="endpointslices")
        self._services = services.lister
        pods = caches.informer(PODS)
        pods.add_index(_BY_LABEL, _label_pairs)
        pods.add_handler(Enqueue(self._loop.add, self._services_of_pod), name="endpointslices")
        self._pods = pods.lister
        slices = caches.informer(ENDPOINT_SLICES)
        slices.add_index(_BY_SERVICE, _service_of_own_slice)
        slices.add_handler(Enqueue(self._loop.add, _service_of_own_slice), name="endpointslices")
        self._slices = slices.lister

    def _services_of_pod(self, pod: KubeletPod) -> Iterator[str]:
        for pair in _label_pairs(pod):
            for service in self._services.by_index(_BY_SELECTOR, pair):
                if selects(service.spec.selector or {}, pod.metadata.labels):
                    yield service.metadata.key

    async def _sync(self, key: str) -> None:
        service = self._services.get(key)
        if service is None or service.metadata.terminating or not service.spec.selector:
            return  # the garbage collector deletes the slices of a deleted Service
        wanted = {
            f"{service.metadata.name}-{suffix(service.metadata.uid, str(number))}": content
            for number, content in enumerate(slices_of(service, self._selected(service)))
        }
        present = {item.metadata.name: item for item in self._slices.by_index(_BY_SERVICE, key)}
        for name, content in wanted.items():
            if name not in present:
                await self._create(service, name, content)
            elif (present[name].ports or [], present[name].endpoints or []) != (
                content.ports,
                content.endpoints,
            ):
                await self._update(present[name], content)
        for name in sorted(present.keys() - wanted.keys()):
            await delete_seen(self._client, ENDPOINT_SLICES, present[name])

    def _selected(self, service: Service) -> list[KubeletPod]:
        selector = service.spec.selector or {}
        return [
            pod
            for pair in _rarest_pair(service)
            for pod in self._pods.by_index(_BY_LABEL, pair)
            if selects(selector, pod.metadata.labels)
        ]

    async def _create(self, service: Service, name: str, content: Slice) -> None:
        meta = service.metadata
        body = {
            "apiVersion": ENDPOINT_SLICES.api_version,
            "kind": ENDPOINT_SLICES.kind,
            "metadata": {
                "name": name,
                "namespace": meta.namespace,
                "labels": {_SERVICE_LABEL: meta.name, _MANAGER_LABEL: _MANAGER},
                "ownerReferences": [owner_reference(SERVICES, meta)],
            },
            "addressType": "IPv4",
            "endpoints": content.endpoints,
            "ports": content.ports,
        }
        try:
            await self._client.create(ENDPOINT_SLICES, meta.namespace, body)
        except AlreadyExists:
            return  # not in the cache yet: its event enqueues the service again

    async def _update(self, present: RawEndpointSlice, content: Slice) -> None:
        meta = present.metadata
        patch: dict[str, Any] = {
            "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
            "endpoints": content.endpoints,
            "ports": content.ports,
        }
        try:
            await self._client.merge_patch(ENDPOINT_SLICES, meta.namespace, meta.name, patch)
        except (NotFound, Conflict):
            return  # the cache is behind: the next event enqueues the service again


def _label_pairs(pod: KubeletPod) -> list[str]:
    labels = pod.metadata.labels or {}
    return [f"{pod.metadata.namespace}/{key}={value}" for key, value in labels.items()]


def _rarest_pair(service: Service) -> list[str]:
    """Return the selector's term that probably selects the fewest pods.

    That is the one with the longest value, but for labels by which all applications are marked:
    `app.kubernetes.io/created-by=kuberay-operator` is longer than most names of clusters.
    """
    selector = service.spec.selector or {}
    if not selector:
        return []
    key = max(selector, key=lambda key: (not key.startswith(_COMMON), len(selector[key]), key))
    return [f"{service.metadata.namespace}/{key}={selector[key]}"]


def service_of_slice(item: RawEndpointSlice) -> list[str]:
    """Return the key of the service that a slice belongs to."""
    name = (item.metadata.labels or {}).get(_SERVICE_LABEL)
    return [f"{item.metadata.namespace}/{name}"] if name else []


def _service_of_own_slice(item: RawEndpointSlice) -> list[str]:
    is_ours = (item.metadata.labels or {}).get(_MANAGER_LABEL) == _MANAGER
    return service_of_slice(item) if is_ours else []
