"""Server-side apply: conflicts, the merge, and removal of fields no longer applied.

Objects whose creator names itself are tracked from the start, others from their first apply.
Earlier fields of the latter belong to the manager `before-first-apply`, as upstream.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec

from controller.apimachinery.patches import same_json
from controller.devcluster.apiserver.managed_fields import (
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
from controller.devcluster.apiserver.objects import Json, child
from controller.devcluster.apiserver.status import ApiError

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
