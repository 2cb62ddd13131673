"""The verbs on resources: maps method and path to an operation and its response."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from controller.devcluster.apiserver.audit import Attributes
from controller.devcluster.apiserver.delete_options import DeleteOptions
from controller.devcluster.apiserver.deletion import Deleter
from controller.devcluster.apiserver.identity import uid_precondition_failed, wrong_name
from controller.devcluster.apiserver.jsondata import child
from controller.devcluster.apiserver.kinds import Quotas
from controller.devcluster.apiserver.list_options import ListOptions
from controller.devcluster.apiserver.lists import list_page
from controller.devcluster.apiserver.messages import (
    Response,
    bytes_response,
    error_response,
    in_protobuf,
    json_response,
    plain_not_found,
)
from controller.devcluster.apiserver.negotiation import (
    JSON,
    accepted,
    content_type,
    decode_object,
    prefers_protobuf,
)
from controller.devcluster.apiserver.patches import APPLY, check_patch_type, patcher
from controller.devcluster.apiserver.query import flag, revision
from controller.devcluster.apiserver.representation import MetadataOnly, WholeObjects
from controller.devcluster.apiserver.resource import METADATA_FIELDS
from controller.devcluster.apiserver.selectors import (
    Selection,
    parse_field_selector,
    parse_label_selector,
)
from controller.devcluster.apiserver.status import (
    ApiError,
    ResourceName,
    bad_request,
    invalid,
    method_not_allowed,
    not_found,
    path_not_found,
    required,
    too_large_resource_version,
)
from controller.devcluster.apiserver.subresources import CONNECTIONS, Subresources
from controller.devcluster.apiserver.tables import TableRows
from controller.devcluster.apiserver.watch import Watch
from controller.devcluster.apiserver.write_options import WriteOptions
from controller.devcluster.apiserver.writer import Writer

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from controller.devcluster.apiserver.audit import Audit
    from controller.devcluster.apiserver.connections import Session
    from controller.devcluster.apiserver.jsondata import Json
    from controller.devcluster.apiserver.messages import Request
    from controller.devcluster.apiserver.paths import ResourcePath
    from controller.devcluster.apiserver.port_forward import PortForward
    from controller.devcluster.apiserver.registry import Registry
    from controller.devcluster.apiserver.representation import Representation
    from controller.devcluster.apiserver.resource import ApiResource
    from controller.devcluster.apiserver.store import Store, Stored
    from controller.devcluster.apiserver.subresources import Hooks
    from controller.devcluster.apiserver.watch import Clock
    from controller.devcluster.apiserver.writer import Written

MIN_WATCH = 1800.0
"""Seconds that a watch without `timeoutSeconds` lives at least; at most twice that."""

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}


class _Call(NamedTuple):
    """A request and the resource that its path names."""

    request: Request
    where: ResourcePath
    resource: ApiResource

    @property
    def target(self) -> tuple[ApiResource, str, str]:
        """Resource, namespace and name."""
        return self.resource, self.where.namespace, self.where.name


class ResourceHandler:
    """Answers requests about resources.

    Attributes:
        writer: creates and updates.
        deleter: deletes.
    """

    def __init__(
        self,
        store: Store,
        registry: Registry,
        audit: Audit,
        hooks: Hooks,
        *,
        wall: Callable[[], datetime],
        clock: Clock,
        rng: random.Random,
        tracks_all_writers: bool,
    ) -> None:
        self.writer = Writer(
            store, Quotas(store), wall=wall, rng=rng, tracks_all_writers=tracks_all_writers
        )
        self.deleter = Deleter(store, wall=wall)
        self._store = store
        self._registry = registry
        self._audit = audit
        self._subresources = Subresources(store, self.deleter, hooks, wall)
        self._wall = wall
        self._clock = clock
        self._rng = rng
        self._stopping = False

    def stop(self) -> None:
        """End all watches."""
        self._stopping = True
        for table in self._store.tables.values():
            table.wake()

    async def answer(
        self, request: Request, where: ResourcePath, resource: ApiResource
    ) -> Response:
        """Answer one request, in protobuf if the client prefers it and the kind is built in.

        Raises:
            ApiError: the request fails.
        """
        if resource.custom or not prefers_protobuf(request.headers.get("accept", "")):
            return await self._answer(request, where, resource)
        try:
            answer = await self._answer(request, where, resource)
        except ApiError as error:
            answer = error_response(error)
        return await in_protobuf(answer)

    async def _answer(
        self, request: Request, where: ResourcePath, resource: ApiResource
    ) -> Response:
        verb = _verb(request, where, custom=resource.custom)
        self._authorise(request, where, verb)
        if where.subresource and where.subresource not in resource.subresources:
            if resource.custom:
                raise not_found(resource.name, where.name)
            raise path_not_found()
        if where.subresource not in {"", "status"}:
            return await self._subresources.answer(request, where, resource)
        if verb not in resource.verbs or (verb == "create" and where.subresource):
            raise method_not_allowed()
        if resource.namespaced and not where.namespace and verb not in {"list", "watch"}:
            return plain_not_found() if resource.custom else error_response(method_not_allowed())
        if verb in _VERBS.values():
            return self._write(verb, request, where, resource)
        readers = {"get": self._get, "list": self._list, "watch": self._watch}
        return readers.get(verb, self._delete)(request, where, resource)

    def connect(
        self, request: Request, where: ResourcePath, resource: ApiResource, command: Sequence[str]
    ) -> Session | PortForward:
        """Prepare a two-way connection; it takes the verb `create`, whatever the method.

        Raises:
            ApiError: it is forbidden or not possible.
        """
        self._authorise(request, where, "create")
        if where.subresource not in CONNECTIONS & resource.subresources:
            raise path_not_found()
        return self._subresources.connect(request, where, resource, command)

    def _authorise(self, request: Request, where: ResourcePath, verb: str) -> None:
        name = f"{where.plural}/{where.subresource}" if where.subresource else where.plural
        user = request.user
        self._audit.admit(
            Attributes(
                user.name,
                request.user_agent,
                verb,
                where.group,
                name,
                where.namespace,
                where.name,
                user.groups,
            )
        )

    def _representation(self, request: Request, resource: ApiResource) -> Representation:
        header = request.headers.get("accept", "")
        for entry in accepted(header, protobuf=not resource.custom):
            if entry.form == "Table":
                return TableRows(resource, self._wall, request.query.get("includeObject", ""))
            if entry.form.startswith("PartialObjectMetadata"):
                return MetadataOnly()
            if not entry.form:
                break
        return WholeObjects(resource)

    def _selection(self, request: Request, where: ResourcePath, resource: ApiResource) -> Selection:
        fields = request.query.get("fieldSelector", "")
        if where.name:
            fields = f"{fields},metadata.name={where.name}".strip(",")
        return Selection(
            parse_label_selector(request.query.get("labelSelector", "")),
            parse_field_selector(
                fields, resource.fields, lambda label: _not_selectable(resource, label)
            ),
        )

    def _get(self, request: Request, where: ResourcePath, resource: ApiResource) -> Response:
        representation = self._representation(request, resource)
        try:
            asked = revision(request.query)
        except ApiError as error:
            why = error.message.removeprefix("invalid resource version: ")
            raise ApiError(500, "", why) from None
        stored = self._find(where, resource)
        if asked and asked > self._store.revision:
            raise too_large_resource_version(asked, self._store.revision)
        return bytes_response(200, representation.one(stored))

    def _find(self, where: ResourcePath, resource: ApiResource) -> Stored:
        key = resource.key(where.namespace, where.name)
        stored = self._store.table(resource.table).items.get(key)
        if stored is None:
            raise not_found(resource.name, where.name)
        return stored

    def _one(
        self, status: int, stored: Stored, request: Request, resource: ApiResource
    ) -> Response:
        return bytes_response(status, self._representation(request, resource).one(stored))

    def _list(self, request: Request, where: ResourcePath, resource: ApiResource) -> Response:
        representation = self._representation(request, resource)
        options = ListOptions.parse(request.query)
        items, metadata = list_page(
            self._store,
            self._store.table(resource.table),
            where.namespace,
            self._selection(request, where, resource),
            options,
        )
        return bytes_response(200, representation.many(items, metadata))

    def _watch(self, request: Request, where: ResourcePath, resource: ApiResource) -> Response:
        representation = self._representation(request, resource)
        options = ListOptions.parse(request.query)
        selection = self._selection(request, where, resource)
        watch = Watch(
            store=self._store,
            table=self._store.table(resource.table),
            namespace=where.namespace,
            selection=selection,
            representation=representation,
            options=options,
            since=options.revision,
            lifetime=float(options.timeout or MIN_WATCH * (1 + self._rng.random())),
            clock=self._clock,
            stopping=lambda: self._stopping,
        )
        return Response(200, watch.chunks(), {"content-type": JSON})

    def _write(
        self, verb: str, request: Request, where: ResourcePath, resource: ApiResource
    ) -> Response:
        if verb == "patch":
            check_patch_type(resource, content_type(request.headers))
        options = WriteOptions.parse(request.query, request.user_agent, verb)
        write = {"create": self._create, "update": self._update, "patch": self._patch}[verb]
        try:
            written = write(_Call(request, where, resource), options)
            status = 201 if written.created else 200
            answer = self._one(status, written.stored, request, resource)
        except ApiError as error:
            answer = error_response(error)
        _warn(answer, options.warnings)
        return answer

    def _create(self, call: _Call, options: WriteOptions) -> Written:
        request, where, resource = call
        object_ = decode_object(request.body, content_type(request.headers))
        return self.writer.create(resource, where.namespace, object_, options)

    def _update(self, call: _Call, options: WriteOptions) -> Written:
        request, where, resource = call
        object_ = decode_object(request.body, content_type(request.headers))
        key = resource.key(where.namespace, where.name)
        exists = key in self._store.table(resource.table).items
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

    def _patch(self, call: _Call, options: WriteOptions) -> Written:
        request, where, resource = call
        media_type = content_type(request.headers)
        if media_type == APPLY:
            return self._apply(call, options)
        apply = patcher(resource, media_type, request.body)
        return self.writer.update(
            *call.target, apply, options, subresource=where.subresource, patched=True
        )

    def _apply(self, call: _Call, options: WriteOptions) -> Written:
        if not call.request.query.get("fieldManager"):
            cause = required("fieldManager", "is required for apply patch")
            raise invalid(ResourceName("meta.k8s.io", "", "PatchOptions"), "", [cause])
        object_ = decode_object(call.request.body, APPLY)
        if not object_.get("kind") and not object_.get("apiVersion"):
            raise bad_request("invalid object type: /, Kind=")
        return self.writer.apply(*call.target, object_, options, subresource=call.where.subresource)

    def _delete(self, request: Request, where: ResourcePath, resource: ApiResource) -> Response:
        body: Json | None = None
        if request.body:
            body = decode_object(request.body, content_type(request.headers))
        options = DeleteOptions.parse(request.query, body)
        call = _Call(request, where, resource)
        if not where.name:
            answer = self._delete_collection(call, options)
        else:
            answer = self._delete_one(call, options)
        if resource.strategy.deletion_warning and not options.propagation:
            _warn(answer, [resource.strategy.deletion_warning])
        return answer

    def _delete_one(self, call: _Call, options: DeleteOptions) -> Response:
        request, _, resource = call
        try:
            stored, gone = self.deleter.delete(*call.target, options)
        except ApiError as error:
            return error_response(error)
        if not gone or resource.strategy.returns_deleted:
            return self._one(200, stored, request, resource)
        return json_response(200, _deleted_status(stored, resource))

    def _delete_collection(self, call: _Call, options: DeleteOptions) -> Response:
        request, where, resource = call
        table = self._store.table(resource.table)
        selection = self._selection(request, where, resource)
        items, metadata = list_page(
            self._store, table, where.namespace, selection, ListOptions.parse(request.query)
        )
        for stored in items:
            owner: Json = stored.object["metadata"]
            self.deleter.delete(resource, owner.get("namespace", ""), owner["name"], options)
        return bytes_response(200, self._representation(request, resource).many(items, metadata))


def _verb(request: Request, where: ResourcePath, *, custom: bool) -> str:
    """The verb of a request; as upstream, custom resources may be created at odd paths."""
    if request.method == "GET":
        if where.name:
            return "get"
        return "watch" if flag(request.query, "watch") else "list"
    if request.method == "DELETE":
        return "delete" if where.name else "deletecollection"
    verb = _VERBS.get(request.method)
    misplaced = bool(where.name) == (verb == "create" and not where.subresource)
    if verb is None or (misplaced and not custom):
        raise method_not_allowed()
    if misplaced and verb != "create":
        raise bad_request("name must be provided")
    return verb


def _not_selectable(resource: ApiResource, label: str) -> ApiError:
    if resource.table == "jobs.batch":
        return bad_request(f'field label "{label}" not supported for {resource.kind}')
    if resource.custom or resource.fields.keys() != METADATA_FIELDS.keys():
        return bad_request(f"field label not supported: {label}")
    known = ", ".join(f'"{name}"' for name in METADATA_FIELDS)
    return bad_request(f'"{label}" is not a known field selector: only {known}')


def _warn(answer: Response, warnings: list[str]) -> None:
    if warnings:
        quoted = (text.replace("\\", "\\\\").replace('"', '\\"') for text in warnings)
        answer.headers["warning"] = ", ".join(f'299 - "{text}"' for text in quoted)


def _deleted_status(stored: Stored, resource: ApiResource) -> Json:
    metadata: Json = stored.object["metadata"]
    details = resource.name.details(metadata["name"]) | {"uid": metadata["uid"]}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
    }
