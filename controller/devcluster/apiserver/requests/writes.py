"""The verbs that write: create, update, patch and both deletes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from controller.devcluster.apiserver.bodies import uid_precondition_failed, wrong_name
from controller.devcluster.apiserver.messages import (
    bytes_response,
    decode_object,
    error_response,
    json_response,
)
from controller.devcluster.apiserver.objects import child
from controller.devcluster.apiserver.options import DeleteOptions, ListOptions, WriteOptions
from controller.devcluster.apiserver.patches import APPLY, check_patch_type, patcher
from controller.devcluster.apiserver.requests.reads import list_page
from controller.devcluster.apiserver.status import (
    ApiError,
    ResourceName,
    bad_request,
    invalid,
    required,
)

if TYPE_CHECKING:
    from controller.devcluster.apiserver.deletion import Deleter
    from controller.devcluster.apiserver.messages import ApiResponse
    from controller.devcluster.apiserver.object_writer import ObjectWriter, Written
    from controller.devcluster.apiserver.objects import Json
    from controller.devcluster.apiserver.options import Admission
    from controller.devcluster.apiserver.requests.resource_call import ResourceCall
    from controller.devcluster.apiserver.resources import ApiResource
    from controller.devcluster.apiserver.store import ObjectStore, Stored


class Writes:
    """Answers requests that write.

    Args:
        store: store with the present objects.
        writer: creates and updates.
        deleter: deletes.
    """

    def __init__(self, store: ObjectStore, writer: ObjectWriter, deleter: Deleter) -> None:
        self._store = store
        self._writer = writer
        self._deleter = deleter

    def write(self, verb: str, call: ResourceCall, admit: Admission) -> ApiResponse:
        """Create, update or patch an object, unless `admit` refuses it.

        Raises:
            ApiError: the query or the type of the body is unusable.
        """
        if verb == "patch":
            check_patch_type(call.resource, call.media_type)
        parsed = WriteOptions.parse(call.request.query, call.request.user_agent, verb)
        options = replace(parsed, admit=admit)
        write = {"create": self._create, "update": self._update, "patch": self._patch}[verb]
        try:
            written = write(call, options)
            answer = call.answer(201 if written.created else 200, written.stored)
        except ApiError as error:
            answer = error_response(error)
        _warn(answer, options.warnings)
        return answer

    def delete(self, call: ResourceCall) -> ApiResponse:
        """Delete an object, or all that are selected.

        Raises:
            ApiError: the query or the body is unusable.
        """
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
        return self._writer.create(call.resource, call.where.namespace, call.body, options)

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
            return self._writer.create(resource, where.namespace, object_, options)
        return self._writer.update(
            *call.target, lambda _: object_, options, subresource=where.subresource
        )

    def _patch(self, call: ResourceCall, options: WriteOptions) -> Written:
        if call.media_type == APPLY:
            return self._apply(call, options)
        change = patcher(call.resource, call.media_type, call.request.body)
        return self._writer.update(
            *call.target, change, options, subresource=call.where.subresource, patched=True
        )

    def _apply(self, call: ResourceCall, options: WriteOptions) -> Written:
        if not call.request.query.get("fieldManager"):
            cause = required("fieldManager", "is required for apply patch")
            raise invalid(ResourceName("meta.k8s.io", "", "PatchOptions"), "", [cause])
        object_ = decode_object(call.request.body, APPLY)
        if not object_.get("kind") and not object_.get("apiVersion"):
            raise bad_request("invalid object type: /, Kind=")
        return self._writer.apply(
            *call.target, object_, options, subresource=call.where.subresource
        )

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
            self._store,
            self._store.table(call.resource.table),
            call.where.namespace,
            call.selection(),
            ListOptions.parse(call.request.query),
        )
        for stored in items:
            owner: Json = stored.object["metadata"]
            self._deleter.delete(call.resource, owner.get("namespace", ""), owner["name"], options)
        return bytes_response(200, call.representation().many(items, metadata))


def _warn(answer: ApiResponse, warnings: list[str]) -> None:
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
