"""Applies JSON merge patches, JSON patches and strategic merge patches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from controller.apimachinery.patches import (
    MalformedPatchError,
    PatchError,
    apply_merge_patch,
    json_patch,
)
from controller.devcluster.apiserver.builtin_types import Field, table
from controller.devcluster.apiserver.messages import decode, decode_object
from controller.devcluster.apiserver.objects import Json, entries
from controller.devcluster.apiserver.resources import ApiResource
from controller.devcluster.apiserver.status import ApiError, bad_request

_ORDER = "$setElementOrder/"
_DELETE = "$deleteFromPrimitiveList/"
_UNTYPED = Field("", "any")


def strategic_merge_patch(type_: str, target: Json, patch: Json) -> Json:
    """Apply a strategic merge patch to a target of a type of the table, in place."""
    directive = patch.get("$patch")
    if directive == "replace":
        return {name: value for name, value in patch.items() if name != "$patch"}
    if directive == "delete":
        return {}
    fields = table().get(type_, {})
    if "$retainKeys" in patch:
        kept = entries(patch, "$retainKeys")
        target = {name: value for name, value in target.items() if name in kept}
    for name, value in patch.items():
        if name.startswith("$"):
            continue
        if value is None:
            target.pop(name, None)
            continue
        target[name] = _merged(fields.get(name, _UNTYPED), target.get(name), value, patch)
    _apply_list_directives(fields, target, patch)
    return target


def _merged(field: Field, current: Any, value: Any, patch: Json) -> Any:
    if isinstance(value, dict):
        inner = field.type.strip("{}")
        holder = cast("Json", current) if isinstance(current, dict) else {}
        return strategic_merge_patch(inner, holder, cast("Json", value))
    if not isinstance(value, list) or field.merge_key is None:
        return cast("Any", value)
    existing = cast("list[Any]", current) if isinstance(current, list) else []
    wanted = cast("list[Any]", value)
    if not field.merge_key:
        return [*wanted, *(item for item in existing if item not in wanted)]
    return _merge_lists(field, existing, wanted, entries(patch, _ORDER + field.name))


def _merge_lists(
    field: Field, existing: list[Json], wanted: list[Json], order: list[Json]
) -> list[Json]:
    key, inner = str(field.merge_key), field.type.strip("[]")
    if any(item.get("$patch") == "replace" for item in wanted):
        return [item for item in wanted if "$patch" not in item]
    for item in wanted:
        if existing and key not in item and "$patch" not in item:
            shown = " ".join(f"{name}:{value}" for name, value in sorted(item.items()))
            raise ApiError(500, "", f"map: map[{shown}] does not contain declared merge key: {key}")
    gone = [item.get(key) for item in wanted if item.get("$patch") == "delete"]
    positions = [item.get(key) for item in existing]
    merged = {item.get(key): item for item in existing if item.get(key) not in gone}
    for item in wanted:
        if item.get("$patch") == "delete":
            continue
        name = item.get(key)
        merged[name] = strategic_merge_patch(inner, merged.get(name, {}), item)
    named = [item.get(key) for item in order or wanted if item.get(key) in merged]
    return [merged[name] for name in _interleave(positions, list(merged), named)]


def _interleave(positions: list[Any], present: list[Any], named: list[Any]) -> list[Any]:
    """Order the named items as named; other items keep their relative position."""
    named = list(dict.fromkeys(named))
    others = [name for name in present if name not in named]
    result: list[Any] = []
    while others and named:
        before = (
            others[0] in positions
            and named[0] in positions
            and positions.index(others[0]) < positions.index(named[0])
        )
        result.append(others.pop(0) if before else named.pop(0))
    return result + others + named


def _apply_list_directives(fields: dict[str, Field], target: Json, patch: Json) -> None:
    for name, value in patch.items():
        if name.startswith(_DELETE):
            listed = name.removeprefix(_DELETE)
            target[listed] = [item for item in entries(target, listed) if item not in value]
        elif name.startswith(_ORDER) and name.removeprefix(_ORDER) not in patch:
            field = fields.get(name.removeprefix(_ORDER), _UNTYPED)
            if field.merge_key and field.name in target:
                target[field.name] = _merge_lists(field, target[field.name], [], value)


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
        return lambda current: apply_merge_patch(current, decode_object(body, media_type))
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
            422, "Invalid", "the server rejected our request due to an error in our request", {}
        ) from error
