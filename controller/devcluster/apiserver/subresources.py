"""Subresources other than status: binding, eviction, finalize, logs and proxies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from controller.devcluster.apiserver.connections import ConnectionRequest
from controller.devcluster.apiserver.delete_options import DeleteOptions
from controller.devcluster.apiserver.jsondata import Json, child, entries
from controller.devcluster.apiserver.messages import bytes_response, json_response
from controller.devcluster.apiserver.meta import timestamp
from controller.devcluster.apiserver.negotiation import content_type, decode_object
from controller.devcluster.apiserver.port_forward import PortForward
from controller.devcluster.apiserver.representation import WholeObjects
from controller.devcluster.apiserver.status import (
    ApiError,
    ResourceName,
    bad_request,
    conflict,
    method_not_allowed,
    not_found,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from datetime import datetime

    from controller.devcluster.apiserver.access import TokenIssuer
    from controller.devcluster.apiserver.connections import ConnectionHook, Session
    from controller.devcluster.apiserver.deletion import Deleter
    from controller.devcluster.apiserver.messages import ApiRequest, ApiResponse
    from controller.devcluster.apiserver.paths import ResourcePath
    from controller.devcluster.apiserver.resource import ApiResource
    from controller.devcluster.apiserver.store import ObjectStore


CONNECTIONS = frozenset({"attach", "exec", "portforward"})
"""Subresources of pods that need a two-way connection."""
_CREATED: Json = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Success",
    "code": 201,
}


class Hook(Protocol):
    """Answers a request for a pod's log, or forwards a request to a pod or service."""

    def __call__(self, request: ApiRequest, where: ResourcePath) -> Awaitable[ApiResponse]:
        """Answer it; `where.name` is as in the path, `[https:]name[:port]` for proxies."""
        ...


@dataclass(slots=True)
class Hooks:
    """Request handlers that other components provide.

    Attributes:
        pod_log: the kubelet's part of `kubectl logs`.
        pod_proxy: forwards a request to a pod.
        service_proxy: forwards a request to a service; `where.rest` is the path there.
        tokens: issues the tokens of service accounts.
        pod_connection: the kubelet's part of `kubectl exec` and `attach`.
    """

    pod_log: Hook | None = None
    pod_proxy: Hook | None = None
    service_proxy: Hook | None = None
    tokens: TokenIssuer | None = None
    pod_connection: ConnectionHook | None = None


class Subresources:
    """Answers requests for subresources."""

    def __init__(
        self,
        store: ObjectStore,
        deleter: Deleter,
        hooks: Hooks,
        wall: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._deleter = deleter
        self._hooks = hooks
        self._wall = wall

    async def answer(
        self, request: ApiRequest, where: ResourcePath, resource: ApiResource
    ) -> ApiResponse:
        """Answer one request.

        Raises:
            ApiError: the request fails.
        """
        if where.subresource in CONNECTIONS:
            self.connect(request, where, resource, (request.query.get("command", ""),))
            raise bad_request(
                "Upgrade request required: a WebSocket or SPDY/3.1, of v4.channel.k8s.io"
            )
        if where.subresource in {"log", "proxy"}:
            return await self._hooked(request, where, resource)
        if (request.method, where.subresource) == ("POST", "token"):
            return self._issue_token(request, where, resource)
        if (request.method, where.subresource) == ("POST", "binding"):
            return self._bind(request, where, resource)
        if (request.method, where.subresource) == ("POST", "eviction"):
            return self._evict(where, resource)
        if (request.method, where.subresource) == ("PUT", "finalize"):
            return self._finalize(request, where, resource)
        raise method_not_allowed()

    def connect(
        self,
        request: ApiRequest,
        where: ResourcePath,
        resource: ApiResource,
        command: Sequence[str],
    ) -> Session | PortForward:
        """Prepare a two-way connection to a pod.

        Raises:
            ApiError: it is not possible.
        """
        pod = self._require(where, resource)
        if self._hooks.pod_connection is None:
            raise _no_connections(where.subresource)
        if where.subresource == "portforward":
            address = child(pod, "status").get("podIP", "")
            if not address:
                raise bad_request(f"pod {where.name} has no address yet")
            return PortForward(address)
        return self._hooks.pod_connection(
            ConnectionRequest(where, pod, request.query, tuple(command))
        )

    async def _hooked(
        self, request: ApiRequest, where: ResourcePath, resource: ApiResource
    ) -> ApiResponse:
        self._require(replace(where, name=_proxied(where.name)), resource)
        hook = getattr(self._hooks, f"{resource.singular}_{where.subresource}")
        if hook is None:
            raise ApiError(503, "ServiceUnavailable", "no kubelet or proxy is attached")
        return await hook(request, where)

    def _require(self, where: ResourcePath, resource: ApiResource) -> Json:
        key = resource.key(where.namespace, where.name)
        stored = self._store.table(resource.table).items.get(key)
        if stored is None:
            raise not_found(resource.name, where.name)
        return stored.object

    def _issue_token(
        self, request: ApiRequest, where: ResourcePath, resource: ApiResource
    ) -> ApiResponse:
        tokens = self._hooks.tokens
        if tokens is None:
            raise ApiError(503, "ServiceUnavailable", "this server issues no tokens")
        if not tokens.exists(where.namespace, where.name):
            raise not_found(resource.name, where.name)
        wanted = decode_object(request.body, content_type(request.headers))
        return json_response(201, tokens.issue(where.namespace, where.name, wanted))

    def _bind(self, request: ApiRequest, where: ResourcePath, resource: ApiResource) -> ApiResponse:
        binding = decode_object(request.body, content_type(request.headers))
        pod = self._require(where, resource)
        name = ResourceName("", "pods/binding", "Binding")
        node = child(binding, "target").get("name", "")
        if pod["metadata"].get("deletionTimestamp"):
            why = f"pod {where.name} is being deleted, cannot be assigned to a host"
            raise conflict(name, where.name, why)
        if bound := pod["spec"].get("nodeName"):
            why = f'pod {where.name} is already assigned to node "{bound}"'
            raise conflict(name, where.name, why)
        scheduled = {
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": timestamp(self._wall()),
        }
        self._store.put(
            resource.table, resource.key(where.namespace, where.name), _bound(pod, node, scheduled)
        )
        return json_response(201, _CREATED)

    def _evict(self, where: ResourcePath, resource: ApiResource) -> ApiResponse:
        self._deleter.delete(resource, where.namespace, where.name, DeleteOptions())
        return json_response(201, _CREATED)

    def _finalize(
        self, request: ApiRequest, where: ResourcePath, resource: ApiResource
    ) -> ApiResponse:
        wanted = decode_object(request.body, content_type(request.headers))
        current = self._require(where, resource)
        key = resource.key(where.namespace, where.name)
        new = current | {
            "metadata": dict(current["metadata"]),
            "spec": {"finalizers": entries(child(wanted, "spec"), "finalizers")},
        }
        if not new["spec"]["finalizers"]:
            new["spec"] = {}
        if resource.strategy.can_be_removed(new):
            stored = self._store.remove(resource.table, key, new)
        else:
            stored = self._store.put(resource.table, key, new)
        return bytes_response(200, WholeObjects(resource).one(stored))


def _no_connections(subresource: str) -> ApiError:
    return ApiError(
        501,
        "NotImplemented",
        f"{subresource} is not possible here: an embedded cluster has no connections into its pods",
    )


def _proxied(name: str) -> str:
    """The name in `[https:]name[:port]`."""
    parts = name.split(":")
    return parts[1] if len(parts) == 3 else parts[0]


def _bound(pod: Json, node: str, scheduled: Json) -> Json:
    status: Json = child(pod, "status")
    others = [
        condition
        for condition in entries(status, "conditions")
        if condition["type"] != "PodScheduled"
    ]
    return pod | {
        "metadata": dict(pod["metadata"]),
        "spec": pod["spec"] | {"nodeName": node},
        "status": status | {"conditions": [*others, scheduled]},
    }
