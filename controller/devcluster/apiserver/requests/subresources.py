"""Subresources other than status: binding, eviction, finalize, scale, logs and proxies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from controller.devcluster.apiserver.jsondata import Json, child, entries
from controller.devcluster.apiserver.messages import bytes_response, json_response
from controller.devcluster.apiserver.meta import timestamp
from controller.devcluster.apiserver.options.delete_options import DeleteOptions
from controller.devcluster.apiserver.options.write_options import WriteOptions
from controller.devcluster.apiserver.protocol.status import (
    ApiError,
    ResourceName,
    bad_request,
    conflict,
    method_not_allowed,
    not_found,
)
from controller.devcluster.apiserver.requests.scale import Scales
from controller.devcluster.apiserver.storage.representation import WholeObjects
from controller.devcluster.apiserver.storage.store import Stored
from controller.devcluster.apiserver.streams.connections import CONNECTIONS, ConnectionRequest
from controller.devcluster.apiserver.streams.port_forward import PortForward

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from datetime import datetime

    from controller.devcluster.apiserver.access import TokenIssuer
    from controller.devcluster.apiserver.messages import ApiRequest, ApiResponse
    from controller.devcluster.apiserver.protocol.paths import ResourcePath
    from controller.devcluster.apiserver.requests.resource_call import ResourceCall
    from controller.devcluster.apiserver.storage.deletion import Deleter
    from controller.devcluster.apiserver.storage.store import ObjectStore
    from controller.devcluster.apiserver.streams.connections import ConnectionHook, Session
    from controller.devcluster.apiserver.writing.object_writer import ObjectWriter

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
        writer: ObjectWriter,
        deleter: Deleter,
        hooks: Hooks,
        wall: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._scales = Scales(store, writer)
        self._deleter = deleter
        self._hooks = hooks
        self._wall = wall

    async def answer(self, call: ResourceCall) -> ApiResponse:
        """Answer one request.

        Raises:
            ApiError: the request fails.
        """
        if call.where.subresource in CONNECTIONS:
            self.connect(call, (call.request.query.get("command", ""),))
            raise bad_request(
                "Upgrade request required: a WebSocket or SPDY/3.1, of v4.channel.k8s.io"
            )
        if call.resource.scale is not None and call.where.subresource == "scale":
            return self._scales.answer(call, call.resource.scale)
        if call.where.subresource in {"log", "proxy"}:
            return await self._hooked(call)
        if (call.request.method, call.where.subresource) == ("POST", "token"):
            return self._issue_token(call)
        if (call.request.method, call.where.subresource) == ("POST", "binding"):
            return self._bind(call)
        if (call.request.method, call.where.subresource) == ("POST", "eviction"):
            return self._evict(call)
        if (call.request.method, call.where.subresource) == ("PUT", "finalize"):
            return self._finalize(call)
        raise method_not_allowed()

    def connect(self, call: ResourceCall, command: Sequence[str]) -> Session | PortForward:
        """Prepare a two-way connection to a pod.

        Raises:
            ApiError: it is not possible.
        """
        pod = self._require(call)
        if self._hooks.pod_connection is None:
            raise _no_connections(call.where.subresource)
        if call.where.subresource == "portforward":
            address = child(pod, "status").get("podIP", "")
            if not address:
                raise bad_request(f"pod {call.where.name} has no address yet")
            return PortForward(address)
        return self._hooks.pod_connection(
            ConnectionRequest(call.where, pod, call.request.query, tuple(command))
        )

    async def _hooked(self, call: ResourceCall) -> ApiResponse:
        self._require(call._replace(where=replace(call.where, name=_proxied(call.where.name))))
        hook = getattr(self._hooks, f"{call.resource.singular}_{call.where.subresource}")
        if hook is None:
            raise ApiError(503, "ServiceUnavailable", "no kubelet or proxy is attached")
        return await hook(call.request, call.where)

    def _require(self, call: ResourceCall) -> Json:
        stored = self._store.table(call.resource.table).items.get(call.key)
        if stored is None:
            raise not_found(call.resource.name, call.where.name)
        return stored.object

    def _issue_token(self, call: ResourceCall) -> ApiResponse:
        tokens = self._hooks.tokens
        if tokens is None:
            raise ApiError(503, "ServiceUnavailable", "this server issues no tokens")
        if not tokens.exists(call.where.namespace, call.where.name):
            raise not_found(call.resource.name, call.where.name)
        wanted, _ = call.body, _options(call, "create")
        return json_response(201, tokens.issue(call.where.namespace, call.where.name, wanted))

    def _bind(self, call: ResourceCall) -> ApiResponse:
        binding, options = call.body, _options(call, "create")
        pod = self._require(call)
        name = ResourceName("", "pods/binding", "Binding")
        node = child(binding, "target").get("name", "")
        if pod["metadata"].get("deletionTimestamp"):
            why = f"pod {call.where.name} is being deleted, cannot be assigned to a host"
            raise conflict(name, call.where.name, why)
        if bound := pod["spec"].get("nodeName"):
            why = f'pod {call.where.name} is already assigned to node "{bound}"'
            raise conflict(name, call.where.name, why)
        scheduled = {
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": timestamp(self._wall()),
        }
        if not options.dry_run:
            self._store.put(call.resource.table, call.key, _bound(pod, node, scheduled))
        return json_response(201, _CREATED)

    def _evict(self, call: ResourceCall) -> ApiResponse:
        _options(call, "create")
        options = DeleteOptions.parse(call.request.query, child(call.body, "deleteOptions"))
        self._deleter.delete(*call.target, options)
        return json_response(201, _CREATED)

    def _finalize(self, call: ResourceCall) -> ApiResponse:
        wanted, options = call.body, _options(call, "update")
        current = self._require(call)
        new = current | {
            "metadata": dict(current["metadata"]),
            "spec": {"finalizers": entries(child(wanted, "spec"), "finalizers")},
        }
        if not new["spec"]["finalizers"]:
            new["spec"] = {}
        if options.dry_run:
            stored = Stored(new, 0)
        elif call.resource.strategy.can_be_removed(new):
            stored = self._store.remove(call.resource.table, call.key, new)
        else:
            stored = self._store.put(call.resource.table, call.key, new)
        return bytes_response(200, WholeObjects(call.resource).one(stored))


def _options(call: ResourceCall, verb: str) -> WriteOptions:
    """Return the options of a request that Kubernetes treats as a create or update.

    Raises:
        ApiError: 422, an unknown value.
    """
    return WriteOptions.parse(call.request.query, call.request.user_agent, verb)


def _no_connections(subresource: str) -> ApiError:
    return ApiError(
        501,
        "NotImplemented",
        f"{subresource} is not possible here: an embedded cluster has no connections into its pods",
    )


def _proxied(name: str) -> str:
    """Return the name in `[https:]name[:port]`."""
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
