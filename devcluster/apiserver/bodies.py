"""Checks and decodes the objects of request bodies: kind, name, uid, revision, fields."""

from __future__ import annotations

from typing import cast

import msgspec

from devcluster.apiserver.builtin_types import DecodeError, json_type, table
from devcluster.apiserver.objects import Json, child
from devcluster.apiserver.options import WriteOptions
from devcluster.apiserver.resources import ApiResource
from devcluster.apiserver.status import (
    MODIFIED,
    ApiError,
    ResourceName,
    bad_request,
    conflict,
    invalid,
    invalid_value,
)


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
    """Return 400: an object that does not exist has no name of its own."""
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


def accept(resource: ApiResource, namespace: str, object_: Json) -> Json:
    """Check the object's kind and convert it to the stored form.

    Raises:
        ApiError: 400.
    """
    check_kind(resource, object_)
    if object_.get("metadata") is None:
        object_["metadata"] = {}
    if not isinstance(object_["metadata"], dict):
        place = "value" if resource.custom else f"struct field {resource.kind}.metadata"
        why = (
            f"json: cannot unmarshal {json_type(object_['metadata'])} into Go {place} of type "
            "v1.ObjectMeta"
        )
        raise undecodable(resource, object_, why, patched=False)
    metadata = cast("Json", object_["metadata"])
    if resource.namespaced:
        if metadata.setdefault("namespace", namespace) != namespace:
            raise bad_request(
                "the namespace of the provided object does not match the namespace sent on "
                "the request"
            )
    else:
        metadata.pop("namespace", None)
    return resource.to_stored(object_) if resource.to_stored else object_


def decode(resource: ApiResource, object_: Json, options: WriteOptions, *, patched: bool) -> None:
    """Decode an object into its typed form; unknown fields are errors or warnings.

    Raises:
        ApiError: 400, or 422 after a patch.
    """
    try:
        paths = resource.strategy.decode(resource.kind, object_)
    except DecodeError as error:
        raise undecodable(resource, object_, str(error), patched=patched) from None
    unknown = [f'unknown field "{path}"' for path in paths]
    if unknown and options.field_validation == "Strict":
        why = f"strict decoding error: {', '.join(unknown)}"
        raise undecodable(resource, object_, why, patched=patched)
    if options.field_validation == "Warn":
        options.warnings.extend(unknown)


def check_applied(resource: ApiResource, applied: Json) -> None:
    """Refuse an applied configuration that does not match the kind's structure.

    Raises:
        ApiError: 500, as upstream has it.
    """
    if applied.get("metadata") is None:
        applied["metadata"] = {}
    problems = resource.strategy.apply_errors(resource.kind, applied)
    if not problems:
        return
    metadata = {
        name: text for name, text in child(applied, "metadata").items() if isinstance(text, str)
    }
    group_version = f"{resource.group}/{resource.version}"
    said = problems[0] if len(problems) == 1 else "\n  ".join(["errors:", *problems])
    raise ApiError(
        500,
        "",
        f"failed to create typed patch object ({metadata.get('namespace', '')}/"
        f"{metadata.get('name', '')}; {group_version}, Kind={resource.kind}): {said}",
    )


def check_body_of_missing(
    resource: ApiResource, namespace: str, name: str, new: Json, options: WriteOptions
) -> None:
    """Report errors of the body before reporting that the object does not exist.

    Raises:
        ApiError: 400.
    """
    new = accept(resource, namespace, new)
    decode(resource, new, options, patched=False)
    if not new["metadata"].get("name"):
        raise no_name(name)
    if new["metadata"]["name"] != name:
        raise wrong_name(new["metadata"]["name"], name)
