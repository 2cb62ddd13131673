"""The embedded API server: answers requests from a store in memory, by their verbs."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from datetime import datetime

from devcluster.apiserver.authentication import User
from devcluster.apiserver.authorization import Attributes, Audit, review
from devcluster.apiserver.bodies import uid_precondition_failed, wrong_name
from devcluster.apiserver.crd import Definitions
from devcluster.apiserver.deletion import Deleter
from devcluster.apiserver.discovery import Discovery
from devcluster.apiserver.kinds import Quotas, builtin_resources
from devcluster.apiserver.messages import (
    WRITES,
    ApiRequest,
    ApiResponse,
    ReceivedRequest,
    ResourcePath,
    bytes_response,
    decode_object,
    error_response,
    json_response,
    lower_case,
    parse_resource_path,
    plain_not_found,
    verb_of,
)
from devcluster.apiserver.object_writer import ObjectWriter, Written
from devcluster.apiserver.objects import Json, child
from devcluster.apiserver.options import DeleteOptions, ListOptions, WriteOptions
from devcluster.apiserver.patches import APPLY, check_patch_type, patcher
from devcluster.apiserver.reads import Reads, list_page
from devcluster.apiserver.resource_call import ResourceCall
from devcluster.apiserver.resources import ApiResource, Registry
from devcluster.apiserver.sessions import CONNECTIONS, PortForward, Session
from devcluster.apiserver.status import (
    ApiError,
    ResourceName,
    bad_request,
    invalid,
    method_not_allowed,
    not_found,
    path_not_found,
    required,
)
from devcluster.apiserver.store import ObjectStore, Stored, StoredEvent
from devcluster.apiserver.subresources import SUCCESS, Hooks, Subresources

PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
NAMESPACES = ("kube-system", "default", "kube-node-lease", "kube-public")


def create_initial_objects(writer: ObjectWriter, registry: Registry) -> None:
    """Create the initial objects."""

    def create(group: str, plural: str, namespace: str, body: Json) -> None:
        resource = registry.find(group, "v1", plural)
        assert resource is not None
        writer.create(resource, namespace, body, WriteOptions())

    for name, value in PRIORITIES.items():
        body: Json = {"metadata": {"name": name}, "value": value}
        create("scheduling.k8s.io", "priorityclasses", "", body)
    for name in NAMESPACES:
        create("", "namespaces", "", {"metadata": {"name": name}})
    service: Json = {
        "metadata": {
            "name": "kubernetes",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "clusterIP": "10.96.0.1",
            "ports": [{"name": "https", "port": 443, "targetPort": 6443}],
        },
    }
    create("", "services", "default", service)


class ApiServer:
    """A Kubernetes API server without a network.

    Attributes:
        store: all objects; tests may look inside.
        writer: writes them.
    """

    def __init__(
        self,
        *,
        wall: Callable[[], datetime],
        clock: asyncio.AbstractEventLoop,
        rng: random.Random,
        history: int = 4096,
        tracks_all_writers: bool = False,
    ) -> None:
        """Start with the namespaces that every cluster has.

        Args:
            wall: UTC time, for timestamps.
            clock: monotonic time and timers, for watches.
            rng: for uids, generated names, addresses and watch lifetimes.
            history: number of transitions per resource that can still be watched.
            tracks_all_writers: whether `managedFields` are kept from every object's creation on,
                which makes writes slower. Otherwise they are kept of objects whose creator said
                its field manager, as kubectl does, and of objects that were applied.
        """
        self.store = ObjectStore(history=history)
        self.audit = Audit()
        self.hooks = Hooks()
        self._wall = wall
        self._registry = Registry(builtin_resources(self.store, rng, wall))
        self._discovery = Discovery(self._registry)
        self.writer = ObjectWriter(
            self.store,
            Quotas(self.store),
            wall=wall,
            rng=rng,
            tracks_all_writers=tracks_all_writers,
            has_account=self._has_account,
        )
        self._deleter = Deleter(self.store, wall=wall)
        self._reads = Reads(self.store, clock=clock, rng=rng)
        self._subresources = Subresources(self.store, self.writer, self._deleter, self.hooks, wall)
        Definitions(self.store, self._registry, self._deleter)
        create_initial_objects(self.writer, self._registry)

    @property
    def on_write(self) -> list[Callable[[StoredEvent], None]]:
        """Callbacks after each transition of the store."""
        return self.store.on_write

    def compact(self) -> None:
        """Drop all history: older revisions answer 410 from now on, as after compaction."""
        self.store.compact()

    async def request(
        self, request: ReceivedRequest, *, sender: User | None = None
    ) -> tuple[int, dict[str, str], AsyncGenerator[bytes, None]]:
        """Answer one request.

        Returns:
            Status, headers with lower-case names, and the body in chunks; a watch's body ends
            when the watch does.
        """
        try:
            answer = await self._answer(_received(request, sender))
        except ApiError as error:
            answer = error_response(error)
        answer.headers["cache-control"] = "no-cache, private"
        return answer.status, answer.headers, answer.chunks

    def connect(
        self,
        path: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        command: Sequence[str],
        *,
        sender: User | None = None,
    ) -> Session | PortForward:
        """Prepare a two-way connection to a pod; `command` has all values of that parameter.

        It takes the verb `create`, whatever the method.

        Raises:
            ApiError: it is forbidden or not possible.
        """
        request = ApiRequest("GET", path, query, lower_case(headers), None, sender)
        where = parse_resource_path(path)
        resource = self._registry.find(where.group, where.version, where.plural) if where else None
        if where is None or resource is None:
            raise path_not_found()
        self.audit.admit(_attributes(request, where, "create"))
        if where.subresource not in CONNECTIONS & resource.subresources:
            raise path_not_found()
        return self._subresources.connect(
            ResourceCall(request, where, resource, self._wall), command
        )

    async def aclose(self) -> None:
        """End all watches."""
        self._reads.stop()

    def _has_account(self, namespace: str, name: str) -> bool:
        return self.hooks.tokens is None or self.hooks.tokens.exists(namespace, name)

    async def _answer(self, request: ApiRequest) -> ApiResponse:
        where = parse_resource_path(request.path)
        if where is None:
            return self._discovery.answer(request)
        resource = self._registry.find(where.group, where.version, where.plural)
        if resource is not None:
            return await self._call(ResourceCall(request, where, resource, self._wall))
        reviewed = review(request, where, self.audit, self.hooks.tokens)
        if reviewed is not None:
            return json_response(201, reviewed)
        if self._registry.is_builtin(where.group):
            raise path_not_found()
        return plain_not_found()

    async def _call(self, call: ResourceCall) -> ApiResponse:
        request, where, resource, _ = call
        verb = verb_of(request, where, custom=resource.custom)
        self.audit.admit(_attributes(request, where, verb))
        if where.subresource and where.subresource not in resource.subresources:
            if resource.custom:
                raise not_found(resource.name, where.name)
            raise path_not_found()
        if where.subresource not in {"", "status"}:
            return await self._subresources.answer(call)
        if verb not in resource.verbs or (verb == "create" and where.subresource):
            raise method_not_allowed()
        if resource.namespaced and not where.namespace and verb not in {"list", "watch"}:
            return plain_not_found() if resource.custom else error_response(method_not_allowed())
        if verb in WRITES.values():
            return self._write(verb, call)
        reads = {"get": self._reads.get, "list": self._reads.list, "watch": self._reads.watch}
        return reads.get(verb, self._delete)(call)

    # Writes.

    def _write(self, verb: str, call: ResourceCall) -> ApiResponse:
        if verb == "patch":
            check_patch_type(call.resource, call.media_type)
        options = WriteOptions.parse(call.request.query, call.request.user_agent, verb)
        write = {"create": self._create, "update": self._update, "patch": self._patch}[verb]
        try:
            written = write(call, options)
            answer = call.answer(201 if written.created else 200, written.stored)
        except ApiError as error:
            answer = error_response(error)
        _warn(answer, options.warnings)
        return answer

    def _delete(self, call: ResourceCall) -> ApiResponse:
        body: Json | None = call.body if call.request.body else None
        options = DeleteOptions.parse(call.request.query, body)
        if not call.where.name:
            answer = self._delete_collection(call, options)
        else:
            answer = self._delete_one(call, options)
        if call.resource.strategy.deletion_warning and not options.propagation:
            _warn(answer, [call.resource.strategy.deletion_warning])
        return answer

    def _create(self, call: ResourceCall, options: WriteOptions) -> Written:
        return self.writer.create(call.resource, call.where.namespace, call.body, options)

    def _update(self, call: ResourceCall, options: WriteOptions) -> Written:
        _, where, resource, _ = call
        object_ = call.body
        exists = call.key in self.store.table(resource.table).items
        if not exists and resource.strategy.creates_on_update and not where.subresource:
            found = child(object_, "metadata").get("name")
            if found != where.name:
                raise wrong_name(found or "", where.name)
            if uid := object_["metadata"].get("uid"):
                key = f"services/specs/{where.namespace}/{where.name}"
                raise uid_precondition_failed(resource, key, uid, options)
            return self.writer.create(resource, where.namespace, object_, options)
        return self.writer.update(
            *call.target, lambda _: object_, options, subresource=where.subresource
        )

    def _patch(self, call: ResourceCall, options: WriteOptions) -> Written:
        if call.media_type == APPLY:
            return self._apply(call, options)
        change = patcher(call.resource, call.media_type, call.request.body)
        return self.writer.update(
            *call.target, change, options, subresource=call.where.subresource, patched=True
        )

    def _apply(self, call: ResourceCall, options: WriteOptions) -> Written:
        if not call.request.query.get("fieldManager"):
            cause = required("fieldManager", "is required for apply patch")
            raise invalid(ResourceName("meta.k8s.io", "", "PatchOptions"), "", [cause])
        object_ = decode_object(call.request.body, APPLY)
        if not object_.get("kind") and not object_.get("apiVersion"):
            raise bad_request("invalid object type: /, Kind=")
        return self.writer.apply(*call.target, object_, options, subresource=call.where.subresource)

    def _delete_one(self, call: ResourceCall, options: DeleteOptions) -> ApiResponse:
        try:
            stored, gone = self._deleter.delete(*call.target, options)
        except ApiError as error:
            return error_response(error)
        if not gone or call.resource.strategy.returns_deleted:
            return call.answer(200, stored)
        return json_response(200, _deleted_status(stored, call.resource))

    def _delete_collection(self, call: ResourceCall, options: DeleteOptions) -> ApiResponse:
        items, metadata = list_page(
            self.store,
            self.store.table(call.resource.table),
            call.where.namespace,
            call.selection(),
            ListOptions.parse(call.request.query),
        )
        for stored in items:
            owner: Json = stored.object["metadata"]
            self._deleter.delete(call.resource, owner.get("namespace", ""), owner["name"], options)
        return bytes_response(200, call.representation().many(items, metadata))


def _received(request: ReceivedRequest, sender: User | None) -> ApiRequest:
    headers = lower_case(request.headers)
    return ApiRequest(request.method, request.path, request.query, headers, request.body, sender)


def _warn(answer: ApiResponse, warnings: list[str]) -> None:
    if warnings:
        quoted = (text.replace("\\", "\\\\").replace('"', '\\"') for text in warnings)
        answer.headers["warning"] = ", ".join(f'299 - "{text}"' for text in quoted)


def _deleted_status(stored: Stored, resource: ApiResource) -> Json:
    metadata: Json = stored.object["metadata"]
    details = resource.name.details(metadata["name"]) | {"uid": metadata["uid"]}
    return SUCCESS | {"details": details}


def _attributes(request: ApiRequest, where: ResourcePath, verb: str) -> Attributes:
    name = f"{where.plural}/{where.subresource}" if where.subresource else where.plural
    user = request.user
    return Attributes(
        user.name,
        request.user_agent,
        verb,
        where.group,
        name,
        where.namespace,
        where.name,
        user.groups,
    )
