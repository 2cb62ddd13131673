"""The verbs on resources: maps method and path to an operation and its response, and writes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from datetime import datetime

from controller.devcluster.apiserver.authorization import Attributes, Audit
from controller.devcluster.apiserver.bodies import uid_precondition_failed, wrong_name
from controller.devcluster.apiserver.deletion import Deleter
from controller.devcluster.apiserver.kinds import Quotas
from controller.devcluster.apiserver.messages import (
    WRITES,
    ApiRequest,
    ApiResponse,
    ResourcePath,
    bytes_response,
    decode_object,
    error_response,
    json_response,
    plain_not_found,
    verb_of,
)
from controller.devcluster.apiserver.object_writer import ObjectWriter, Written
from controller.devcluster.apiserver.objects import Json, child
from controller.devcluster.apiserver.options import DeleteOptions, ListOptions, WriteOptions
from controller.devcluster.apiserver.patches import APPLY, check_patch_type, patcher
from controller.devcluster.apiserver.requests.reads import Reads, list_page
from controller.devcluster.apiserver.requests.resource_call import ResourceCall
from controller.devcluster.apiserver.requests.subresources import SUCCESS, Hooks, Subresources
from controller.devcluster.apiserver.resources import ApiResource
from controller.devcluster.apiserver.sessions import CONNECTIONS, PortForward, Session
from controller.devcluster.apiserver.status import (
    ApiError,
    ResourceName,
    bad_request,
    invalid,
    method_not_allowed,
    not_found,
    path_not_found,
    required,
)
from controller.devcluster.apiserver.store import ObjectStore, Stored


class ResourceHandler:
    """Answers requests about resources."""

    def __init__(
        self,
        store: ObjectStore,
        audit: Audit,
        hooks: Hooks,
        *,
        wall: Callable[[], datetime],
        clock: asyncio.AbstractEventLoop,
        rng: random.Random,
        tracks_all_writers: bool,
    ) -> None:
        self._store = store
        self.writer = ObjectWriter(
            store,
            Quotas(store),
            wall=wall,
            rng=rng,
            tracks_all_writers=tracks_all_writers,
            has_account=lambda namespace, name: (
                hooks.tokens is None or hooks.tokens.exists(namespace, name)
            ),
        )
        self.deleter = Deleter(store, wall=wall)
        self._reads = Reads(store, clock=clock, rng=rng)
        self._audit = audit
        self._subresources = Subresources(store, self.writer, self.deleter, hooks, wall)
        self._wall = wall

    def stop(self) -> None:
        """End all watches."""
        self._reads.stop()

    async def answer(
        self, request: ApiRequest, where: ResourcePath, resource: ApiResource
    ) -> ApiResponse:
        """Answer one request.

        Raises:
            ApiError: the request fails.
        """
        call = ResourceCall(request, where, resource, self._wall)
        verb = verb_of(request, where, custom=resource.custom)
        self._audit.admit(_attributes(request, where, verb))
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

    def connect(
        self,
        request: ApiRequest,
        where: ResourcePath,
        resource: ApiResource,
        command: Sequence[str],
    ) -> Session | PortForward:
        """Prepare a two-way connection; it takes the verb `create`, whatever the method.

        Raises:
            ApiError: it is forbidden or not possible.
        """
        self._audit.admit(_attributes(request, where, "create"))
        if where.subresource not in CONNECTIONS & resource.subresources:
            raise path_not_found()
        call = ResourceCall(request, where, resource, self._wall)
        return self._subresources.connect(call, command)

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
        exists = call.key in self._store.table(resource.table).items
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
            stored, gone = self.deleter.delete(*call.target, options)
        except ApiError as error:
            return error_response(error)
        if not gone or call.resource.strategy.returns_deleted:
            return call.answer(200, stored)
        return json_response(200, _deleted_status(stored, call.resource))

    def _delete_collection(self, call: ResourceCall, options: DeleteOptions) -> ApiResponse:
        items, metadata = list_page(
            self._store,
            self._store.table(call.resource.table),
            call.where.namespace,
            call.selection(),
            ListOptions.parse(call.request.query),
        )
        for stored in items:
            owner: Json = stored.object["metadata"]
            self.deleter.delete(call.resource, owner.get("namespace", ""), owner["name"], options)
        return bytes_response(200, call.representation().many(items, metadata))


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
