"""Applies patches: JSON merge, JSON and strategic merge patches, and server-side apply."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import msgspec

from controller.apimachinery.patches import (
    MalformedPatchError,
    PatchError,
    apply_merge_patch,
    json_patch,
    same_json,
)
from devcluster.apiserver.builtin_types import Field, table
from devcluster.apiserver.managed_fields import (
    BEFORE,
    FieldOwner,
    Path,
    Structure,
    item_element,
    leaves,
    owners_of,
    shown_path,
    write_owners,
)
from devcluster.apiserver.messages import decode, decode_object
from devcluster.apiserver.objects import Json, child, entries
from devcluster.apiserver.resources import ApiResource
from devcluster.apiserver.status import ApiError, bad_request

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


# Server-side apply: conflicts, the merge, and removal of fields no longer applied.
#
# Objects whose creator names itself are tracked from the start, others from their first apply.
# Earlier fields of the latter belong to the manager `before-first-apply`, as upstream.


LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
MANAGER = "kubectl"


def formerly_applied(current: Json, manager: str, structure: Structure) -> set[Path]:
    """Return the fields that `kubectl` applied client-side; empty for other managers."""
    if manager != MANAGER:
        return set()
    noted: Any = child(current["metadata"], "annotations").get(LAST_APPLIED)
    try:
        return set(leaves(msgspec.json.decode(noted, type=dict[str, Any]), structure))
    except (msgspec.DecodeError, msgspec.ValidationError, TypeError):
        return set()


def note_applied(merged: Json, applied: Json, manager: str) -> None:
    """Update the annotation of an object that has one, in place."""
    annotations: Json = child(merged["metadata"], "annotations")
    if manager == MANAGER and LAST_APPLIED in annotations:
        annotations[LAST_APPLIED] = msgspec.json.encode(applied, order="sorted").decode() + "\n"


def apply_object(
    current: Json, applied: Json, applier: FieldOwner, structure: Structure, *, force: bool
) -> Json:
    """Merge the whole configuration of a manager into an object, which may be changed.

    Raises:
        ApiError: 409, another manager owns a field that this would change.
    """
    wanted = leaves(applied, structure)
    present = leaves(current, structure)
    owners = owners_of(current) or _first_owner(present, applier)
    mine = next((owner for owner in owners if owner.is_same(applier)), None)
    others = [owner for owner in owners if owner is not mine]
    changed = {
        path
        for path, value in wanted.items()
        if path in present and not same_json(present[path], value)
    }
    formerly = formerly_applied(current, applier.manager, structure)
    _settle_conflicts(others, changed, formerly, force=force)
    dropped = (mine.paths if mine else set[Path]()) - wanted.keys()
    for owner in others:
        dropped -= owner.paths
    merged = cast("Json", _merge(current, applied, structure))
    kept = {path for owner in others for path in owner.paths}
    _remove(merged, _Removal(dropped, kept), structure, ())
    applier.paths = set(wanted)
    if mine and mine.paths == applier.paths:
        applier.time = mine.time
    write_owners(merged, [*others, applier])
    note_applied(merged, applied, applier.manager)
    return merged


def _first_owner(present: dict[Path, Any], applier: FieldOwner) -> list[FieldOwner]:
    return [FieldOwner(BEFORE, "Update", applier.api_version, "", applier.time, set(present))]


def _settle_conflicts(
    others: list[FieldOwner], changed: set[Path], formerly: set[Path], *, force: bool
) -> None:
    ordered = sorted(others, key=lambda owner: (owner.manager, not owner.subresource))
    conflicts = [
        (owner, path) for owner in ordered for path in sorted(owner.paths & changed, key=_order)
    ]
    if not force and any(path not in formerly for _, path in conflicts):
        raise _conflict(conflicts)
    for owner in others:
        owner.paths -= changed


def _order(path: Path) -> list[tuple[bool, str]]:
    """Return a sort key by which leaves come before nested fields at each level."""
    last = len(path) - 1
    return [(depth < last, element) for depth, element in enumerate(path)]


def _conflict(conflicts: list[tuple[FieldOwner, Path]]) -> ApiError:
    by_owner: dict[str, list[str]] = {}
    causes: list[Json] = []
    for owner, path in conflicts:
        below = f' with subresource "{owner.subresource}"' if owner.subresource else ""
        using = f" using {owner.api_version}" if owner.operation == "Update" else ""
        said = f'"{owner.manager}"{below}{using}'
        by_owner.setdefault(said, []).append(shown_path(path))
        causes.append(
            {
                "reason": "FieldManagerConflict",
                "message": f"conflict with {said}",
                "field": shown_path(path),
            }
        )
    lines = [
        f"conflict with {said}: {paths[0]}"
        if len(causes) == 1
        else "\n- ".join([f"conflicts with {said}:", *paths])
        for said, paths in by_owner.items()
    ]
    count = "1 conflict" if len(causes) == 1 else f"{len(causes)} conflicts"
    message = f"Apply failed with {count}: " + "\n".join(lines)
    return ApiError(409, "Conflict", message, {"causes": causes})


def _merge(current: Any, applied: Any, structure: Structure) -> Any:
    if isinstance(applied, dict) and isinstance(current, dict) and not structure.is_atomic:
        holder = cast("Json", current)
        for name, value in cast("Json", applied).items():
            holder[name] = _merge(holder.get(name), value, structure.field(name))
        return holder
    keys = structure.list_keys
    if keys is None or not isinstance(applied, list) or not isinstance(current, list):
        return cast("Any", applied)
    held = {item_element(item, keys): item for item in cast("list[Any]", current)}
    wanted = {item_element(item, keys): item for item in cast("list[Any]", applied)}
    return [
        _merge(held.get(element), wanted[element], structure.item())
        if element in wanted
        else held[element]
        for element in _interleaved(list(held), list(wanted))
    ]


def _interleaved(held: list[str], wanted: list[str]) -> list[str]:
    """Return the order of merged items: as applied; other items stay before their successors."""
    shared = [element for element in wanted if element in held]
    order: list[str] = []
    for element in wanted:
        while held and (held[0] not in wanted or held[0] in order or _is_passed(held[0], shared)):
            passed = held.pop(0)
            if passed not in wanted:
                order.append(passed)
        order.append(element)
        if shared and shared[0] == element:
            shared.pop(0)
    return order + [element for element in held if element not in wanted]


def _is_passed(element: str, shared: list[str]) -> bool:
    """Return whether another shared item comes first in the wanted order."""
    return bool(shared) and element in shared and shared[0] != element


class _Removal(msgspec.Struct, frozen=True):
    """The fields and items that are to be removed.

    Attributes:
        kept: what others own; maps among it stay even if empty.
    """

    dropped: set[Path]
    kept: set[Path]


def _remove(value: Any, removal: _Removal, structure: Structure, path: Path) -> None:
    """Remove dropped leaves and items below a value, and maps that become empty."""
    dropped = removal.dropped
    if isinstance(value, dict):
        holder = cast("Json", value)
        for name, item in list(holder.items()):
            below = (*path, f"f:{name}")
            if not any(one[: len(below)] == below for one in dropped):
                continue
            if below in dropped:
                del holder[name]
                continue
            _remove(item, removal, structure.field(name), below)
            if item in ({}, []) and below not in removal.kept:
                del holder[name]
    elif isinstance(value, list) and structure.list_keys is not None:
        items = cast("list[Any]", value)
        for item in list(items):
            below = (*path, item_element(item, structure.list_keys))
            if below in dropped:
                items.remove(item)
            else:
                _remove(item, removal, structure.item(), below)
