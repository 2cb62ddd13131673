"""Checks that a request body matches the request: kind, name, uid, revision."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from controller.devcluster.apiserver.fields.field_table import table
from controller.devcluster.apiserver.jsondata import child
from controller.devcluster.apiserver.protocol.status import (
    MODIFIED,
    ApiError,
    ResourceName,
    bad_request,
    conflict,
    invalid,
    invalid_value,
)

if TYPE_CHECKING:
    from controller.devcluster.apiserver.jsondata import Json
    from controller.devcluster.apiserver.options.write_options import WriteOptions
    from controller.devcluster.apiserver.resources.resource import ApiResource


def undecodable(resource: ApiResource, object_: Json, why: str, *, patched: bool) -> ApiError:
    """Return 400, or 422 after a patch: the object cannot be decoded as its kind."""
    if not patched:
        return bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a '
            f"{resource.kind}: {why}"
        )
    text = msgspec.json.encode(object_).decode()
    return invalid(ResourceName("", "", ""), "", [invalid_value("patch", text, why)])


def uid_precondition_failed(
    resource: ApiResource, key: str, uid: str, options: WriteOptions
) -> ApiError:
    """Return 409: the object to replace does not exist; `key` is upstream's storage key."""
    prefix = "/" if options.dry_run else "/registry/"
    return conflict(
        resource.name,
        key.rpartition("/")[2],
        f"StorageError: invalid object, Code: 4, Key: {prefix}{key}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, "
        "UID in object meta: ",
    )


def wrong_name(found: str, expected: str) -> ApiError:
    """Return 400: the object's name differs from the path's."""
    return bad_request(
        f"the name of the object ({found}) does not match the name on the URL ({expected})"
    )


def no_name(expected: str) -> ApiError:
    """Return 400: an applied object that does not exist has no name of its own."""
    return bad_request(
        f"the name of the object ({expected} based on URL) was undeterminable: "
        "name must be provided"
    )


def check_identity(
    resource: ApiResource, name: str, new: Json, old: Json, *, patched: bool
) -> None:
    """Refuse a change of identity.

    Raises:
        ApiError: 400, 409 or 422.
    """
    metadata: Json = new["metadata"]
    if metadata.setdefault("name", name) != name:
        raise wrong_name(metadata["name"], name)
    uid = metadata.get("uid")
    if uid and uid != old["metadata"]["uid"] and not patched:
        key = resource.key(old["metadata"].get("namespace", ""), name)
        raise conflict(
            resource.name,
            name,
            f"StorageError: invalid object, Code: 4, Key: /registry/{resource.plural}/{key}, "
            f"ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: "
            f"UID in precondition: {uid}, "
            f"UID in object meta: {old['metadata']['uid']}",
        )
    wanted = metadata.get("resourceVersion")
    if not wanted and not resource.strategy.unconditional_update:
        detail = "must be specified for an update"
        cause = invalid_value("metadata.resourceVersion", 0, detail)
        plural = ResourceName(resource.group, resource.plural, resource.plural)
        raise invalid(plural, name, [cause])
    if wanted and wanted != old["metadata"]["resourceVersion"]:
        raise conflict(resource.name, name, MODIFIED)


def check_kind(resource: ApiResource, object_: Json) -> None:
    """Refuse objects of another kind or version; built-in ones may leave out both.

    Raises:
        ApiError: 400 or 422.
    """
    if resource.custom:
        _check_custom_kind(resource, object_)
        return
    kind = object_["kind"] = object_.get("kind") or resource.kind
    version = object_["apiVersion"] = object_.get("apiVersion") or resource.api_version
    if version != resource.api_version or kind not in table():
        raise bad_request(
            f'{kind} in version "{version.rpartition("/")[2]}" cannot be handled as a '
            f'{resource.kind}: no kind "{kind}" is registered for version "{version}" in scheme '
            '"pkg/api/legacyscheme/scheme.go:30"'
        )
    if kind != resource.kind:
        raise bad_request(
            f'{kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
            f"converting ({resource.version}.{kind}) to "
            f"({resource.group or 'core'}.{resource.kind}): unknown conversion"
        )


def _check_custom_kind(resource: ApiResource, object_: Json) -> None:
    kind, version = object_.get("kind"), object_.get("apiVersion")
    if not kind:
        raise bad_request(
            f"the object provided is unrecognized (must be of type {resource.kind}): "
            "Object 'Kind' is missing"
        )
    if version != resource.api_version:
        raise bad_request(
            f"the API version in the data ({version}) does not match the expected API version "
            f"({resource.api_version})"
        )
    if kind != resource.kind:
        name = child(object_, "metadata").get("name", "")
        why = f"must be {resource.kind}"
        said = ResourceName(resource.group, resource.plural, kind)
        raise invalid(said, name, [invalid_value("kind", kind, why)])
