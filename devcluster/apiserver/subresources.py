"""Subresources other than status: binding, eviction, finalize, scale, logs and proxies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeAlias

from msgspec.structs import replace

from devcluster.apiserver.authentication import TokenIssuer
from devcluster.apiserver.bodies import wrong_name
from devcluster.apiserver.deletion import Deleter
from devcluster.apiserver.messages import (
    ApiRequest,
    ApiResponse,
    ResourcePath,
    bytes_response,
    json_response,
    proxy_target,
)
from devcluster.apiserver.object_writer import ObjectWriter
from devcluster.apiserver.objects import Json, child, entries, timestamp
from devcluster.apiserver.options import DeleteOptions, LabelRequirement, WriteOptions
from devcluster.apiserver.patches import APPLY, check_patch_type, patcher
from devcluster.apiserver.resource_call import ResourceCall, WholeObjects
from devcluster.apiserver.resources import ScalePaths
from devcluster.apiserver.sessions import (
    CONNECTIONS,
    ConnectionHook,
    ConnectionRequest,
    PortForward,
    Session,
)
from devcluster.apiserver.status import (
    ApiError,
    ResourceName,
    bad_request,
    conflict,
    method_not_allowed,
    not_found,
    unavailable,
)
from devcluster.apiserver.store import ObjectStore, Stored

_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "absent"}


def check_budgets(pod: Json, budgets: Sequence[Json], pods: Sequence[Json]) -> None:
    """Check the budgets of the pod's namespace, among whose pods it is.

    Only numbers count, of `minAvailable`; without one nothing may be evicted.

    Raises:
        ApiError: 429, a budget forbids the eviction; 500, the pod has two budgets.
    """
    if child(pod, "status").get("phase") in {"Succeeded", "Failed", "Pending"}:
        return
    if pod["metadata"].get("deletionTimestamp"):
        return
    found = [each for each in budgets if _selects(each, pod)]
    if len(found) > 1:
        message = "This pod has more than one PodDisruptionBudget, which the eviction subresource"
        raise ApiError(500, "InternalError", f"{message} does not support.")
    for budget in found:
        spec, name = child(budget, "spec"), budget["metadata"]["name"]
        healthy = sum(_is_ready(each) for each in pods if _selects(budget, each))
        needed: int = spec.get("minAvailable", healthy)
        policy = spec.get("unhealthyPodEvictionPolicy", "IfHealthyBudget")
        if not _is_ready(pod) and (policy == "AlwaysAllow" or healthy >= needed):
            continue
        if healthy - 1 < needed:
            cause = {
                "reason": "DisruptionBudget",
                "message": f"The disruption budget {name} needs {needed} healthy pods and has "
                f"{healthy} currently",
            }
            message = "Cannot evict pod as it would violate the pod's disruption budget."
            raise ApiError(429, "TooManyRequests", message, {"causes": [cause]})


def evicted(pod: Json, now: datetime) -> Json:
    """Return the pod as the API server marks it before it deletes it."""
    target = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
        "lastTransitionTime": timestamp(now),
    }
    return _with_condition(pod, target)


def _with_condition(pod: Json, condition: Json) -> Json:
    status, kind = child(pod, "status"), condition["type"]
    kept = [each for each in entries(status, "conditions") if each["type"] != kind]
    return pod | {
        "metadata": dict(pod["metadata"]),
        "status": status | {"conditions": [*kept, condition]},
    }


def _selects(budget: Json, pod: Json) -> bool:
    selector = child(budget, "spec").get("selector")
    if selector is None:
        return False
    labels: dict[str, str] = child(pod, "metadata").get("labels") or {}
    rules = [
        LabelRequirement(
            rule["key"], _OPERATORS[rule["operator"]], frozenset(rule.get("values") or ())
        )
        for rule in entries(selector, "matchExpressions")
    ]
    exact: dict[str, str] = selector.get("matchLabels") or {}
    return exact.items() <= labels.items() and all(rule.matches(labels) for rule in rules)


def _is_ready(pod: Json) -> bool:
    conditions = entries(child(pod, "status"), "conditions")
    is_ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return is_ready and not pod["metadata"].get("deletionTimestamp")


_UNSET: Final = -(2**31)
"""Value that a patch finds in place of a number that the object lacks."""

_VERBS: Final = {"PUT": "update", "PATCH": "patch"}


class Scales:
    """Answers requests for the scale of objects."""

    def __init__(self, store: ObjectStore, writer: ObjectWriter) -> None:
        self._store = store
        self._writer = writer

    def answer(self, call: ResourceCall, paths: ScalePaths) -> ApiResponse:
        """Answer one request.

        Raises:
            ApiError: the request fails.
        """
        method = call.request.method
        if method == "GET":
            return _answer(self._read(call, paths))
        if method not in _VERBS:
            raise method_not_allowed()
        change = _replacement(call) if method == "PUT" else _patch(call)
        query, agent = call.request.query, call.request.user_agent
        written = self._writer.update(
            *call.target,
            lambda current: _scaled(call, current, paths, change),
            WriteOptions.parse(query, agent, _VERBS[method]),
            subresource="scale",
            patched=True,
        )
        return _answer(paths.scale(written.stored.object))

    def _read(self, call: ResourceCall, paths: ScalePaths) -> Json:
        stored = self._store.table(call.resource.table).items.get(call.key)
        if stored is None:
            raise not_found(call.resource.name, call.where.name)
        scale = paths.scale(stored.object)
        if not scale["spec"]:
            why = f'the spec replicas field "{paths.wanted}" does not exist'
            raise ApiError(500, "InternalError", f"Internal error occurred: {why}")
        return scale


def _replacement(call: ResourceCall) -> Callable[[Json], Json]:
    body = call.body
    return lambda _current: body


def _patch(call: ResourceCall) -> Callable[[Json], Json]:
    check_patch_type(call.resource, call.media_type)
    if call.media_type == APPLY:  # as upstream, which cannot either
        where = f"{call.where.namespace}/{call.where.name}"
        raise ApiError(
            500,
            "",
            f"failed to convert new object ({where}; autoscaling/v1, Kind=Scale) to proper "
            "version: request to convert CR to an invalid group/version: autoscaling/v1",
        )
    return patcher(call.resource, call.media_type, call.request.body)


def _scaled(
    call: ResourceCall, current: Json, paths: ScalePaths, change: Callable[[Json], Json]
) -> Json:
    scale = paths.scale(current)
    scale["spec"].setdefault("replicas", _UNSET)
    new = change(scale)
    replicas = child(new, "spec").get("replicas", 0)
    if (new.get("kind"), new.get("apiVersion")) != ("Scale", "autoscaling/v1") or (
        type(replicas) is not int
    ):
        raise bad_request(
            'no kind is registered for the type v1.Scale in scheme "k8s.io/apiextensions-'
            'apiserver/pkg/apiserver/customresource_handler.go:781"'
        )
    metadata = child(new, "metadata")
    if (name := metadata.get("name", "")) != call.where.name:
        raise wrong_name(name, call.where.name)
    if replicas == _UNSET:
        raise bad_request(f'the spec replicas field "{paths.wanted}" cannot be empty')
    own = current["metadata"]["uid"]
    if (uid := metadata.get("uid") or own) != own:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {own}"
        raise conflict(call.resource.name, name, why)
    paths.set_wanted(current, replicas)
    if revision := metadata.get("resourceVersion"):
        current["metadata"]["resourceVersion"] = revision
    return current


def _answer(scale: Json) -> ApiResponse:
    """Return the scale as Go prints it: a desired number of 0 is left out."""
    return json_response(200, scale if scale["spec"].get("replicas") else scale | {"spec": {}})


SUCCESS: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
_CREATED = SUCCESS | {"code": 201}


Hook: TypeAlias = Callable[[ApiRequest, ResourcePath], Awaitable[ApiResponse]]
"""Answers a request for a log or a proxy; names of the latter are `[https:]name[:port]`."""


@dataclass(slots=True)
class Hooks:
    """Request handlers that other components provide.

    Attributes:
        service_proxy: forwards a request to a service; `where.rest` is the path there.
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
        _, name, _ = proxy_target(call.where.name)
        self._require(call._replace(where=replace(call.where, name=name)))
        hook = getattr(self._hooks, f"{call.resource.singular}_{call.where.subresource}")
        if hook is None:
            raise unavailable("no kubelet or proxy is attached")
        return await hook(call.request, call.where)

    def _require(self, call: ResourceCall) -> Json:
        stored = self._store.table(call.resource.table).items.get(call.key)
        if stored is None:
            raise not_found(call.resource.name, call.where.name)
        return stored.object

    def _issue_token(self, call: ResourceCall) -> ApiResponse:
        tokens = self._hooks.tokens
        if tokens is None:
            raise unavailable("this server issues no tokens")
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
            bound = _with_condition(pod, scheduled) | {"spec": pod["spec"] | {"nodeName": node}}
            self._store.put(call.resource.table, call.key, bound)
        return json_response(201, _CREATED)

    def _evict(self, call: ResourceCall) -> ApiResponse:
        _options(call, "create")
        options = DeleteOptions.parse(call.request.query, child(call.body, "deleteOptions"))
        pod, namespace = self._require(call), call.where.namespace
        budgets = self._all("poddisruptionbudgets.policy", namespace)
        check_budgets(pod, budgets, self._all("pods", namespace))
        self._deleter.delete(*call.target, replace(options, dry_run=True))  # if it may be
        if not options.dry_run and not pod["metadata"].get("deletionTimestamp"):
            self._store.put(call.resource.table, call.key, evicted(pod, self._wall()))
        self._deleter.delete(*call.target, options)
        return json_response(201, _CREATED)

    def _all(self, table: str, namespace: str) -> list[Json]:
        return [each.object for _, each in self._store.table(table).now(namespace)]

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
    """Return the options of a request that Kubernetes treats as a create or update."""
    return WriteOptions.parse(call.request.query, call.request.user_agent, verb)


def _no_connections(subresource: str) -> ApiError:
    return ApiError(
        501,
        "NotImplemented",
        f"{subresource} is not possible here: an embedded cluster has no connections into its pods",
    )
