"""Checks and decodes the objects of request bodies."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from controller.devcluster.apiserver.fields.typed import DecodeError, json_type
from controller.devcluster.apiserver.jsondata import child
from controller.devcluster.apiserver.protocol.status import ApiError, bad_request
from controller.devcluster.apiserver.writing.identity import check_kind, undecodable, wrong_name

if TYPE_CHECKING:
    from controller.devcluster.apiserver.jsondata import Json
    from controller.devcluster.apiserver.options.write_options import WriteOptions
    from controller.devcluster.apiserver.resources.resource import ApiResource


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
        raise bad_request(
            f"the name of the object ({name} based on URL) was undeterminable: "
            "name must be provided"
        )
    if new["metadata"]["name"] != name:
        raise wrong_name(new["metadata"]["name"], name)
