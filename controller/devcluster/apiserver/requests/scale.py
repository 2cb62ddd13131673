"""The scale subresource of custom resources: `kubectl scale` reads and writes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.devcluster.apiserver.jsondata import Json, child
from controller.devcluster.apiserver.messages import json_response
from controller.devcluster.apiserver.options.write_options import WriteOptions
from controller.devcluster.apiserver.patches import APPLY, check_patch_type, patcher
from controller.devcluster.apiserver.protocol.status import (
    ApiError,
    bad_request,
    conflict,
    method_not_allowed,
    not_found,
)
from controller.devcluster.apiserver.writing.identity import wrong_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from controller.devcluster.apiserver.messages import ApiResponse
    from controller.devcluster.apiserver.requests.resource_call import ResourceCall
    from controller.devcluster.apiserver.resources.scale_paths import ScalePaths
    from controller.devcluster.apiserver.storage.store import ObjectStore
    from controller.devcluster.apiserver.writing.object_writer import ObjectWriter

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
    """Return the object with the number of the changed scale."""
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
