"""Applies JSON merge patches, JSON patches and strategic merge patches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controller.apimachinery.patches.json_patch import MalformedPatchError, PatchError, json_patch
from controller.devcluster.apiserver.patches.merge import merge_patch
from controller.devcluster.apiserver.patches.strategic import strategic_merge_patch
from controller.devcluster.apiserver.protocol.negotiation import decode, decode_object
from controller.devcluster.apiserver.protocol.status import ApiError, bad_request

if TYPE_CHECKING:
    from collections.abc import Callable

    from controller.devcluster.apiserver.jsondata import Json
    from controller.devcluster.apiserver.resources.resource import ApiResource

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


def check_patch_type(resource: ApiResource, media_type: str) -> None:
    """Refuse types of patches that a resource does not support.

    Raises:
        ApiError: 415.
    """
    if media_type in {MERGE, JSON_PATCH, APPLY} or (
        media_type == STRATEGIC and not resource.custom
    ):
        return
    if not resource.custom:
        raise ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
    raise ApiError(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: "
        f"{JSON_PATCH}, {MERGE}, {APPLY}",
    )


def patcher(resource: ApiResource, media_type: str, body: bytes | None) -> Callable[[Json], Json]:
    """Return a function that decodes and applies a patch of a checked type.

    The returned function raises ApiError: 400 if the patch cannot be decoded, 422 if it does not
    fit.
    """
    if media_type == MERGE:
        return lambda current: merge_patch(current, decode_object(body, media_type))
    if media_type == JSON_PATCH:
        return lambda current: _json_patch(current, decode(body, media_type))
    return lambda current: strategic_merge_patch(
        resource.kind, current, decode_object(body, media_type)
    )


def _json_patch(current: Json, operations: Any) -> Json:
    try:
        return json_patch(current, operations)
    except MalformedPatchError as error:
        raise bad_request(f"error decoding patch: {error}") from error
    except PatchError as error:
        raise ApiError(
            422,
            "Invalid",
            "the server rejected our request due to an error in our request",
            {},
        ) from error
