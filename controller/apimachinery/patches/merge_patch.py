"""Applies JSON merge patches (RFC 7386), and finds the smallest one.

Works on plain data. None in a patch removes a member.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Sequence


def apply_merge_patch(document: Any, patch: Any) -> Any:
    """Return `document` with `patch` applied; neither is modified."""
    if not isinstance(patch, Mapping):
        return patch
    result: dict[str, Any] = dict(_mapping(document))
    for name, value in cast("Mapping[str, Any]", patch).items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = apply_merge_patch(result.get(name), value)
    return result


def difference(current: Any, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the smallest merge patch after which the members of `wanted` are as wanted.

    Members that `wanted` does not name stay unchanged. An empty member of `current` counts as
    absent when None is wanted, because views fill in defaults.
    """
    present = _mapping(current)
    patch: dict[str, Any] = {}
    for name, value in wanted.items():
        now = present.get(name)
        if now == value:
            continue
        if isinstance(value, Mapping) and isinstance(now, Mapping):
            inner = difference(now, cast("Mapping[str, Any]", value))
            if inner:
                patch[name] = inner
        elif value is None:
            if now:
                patch[name] = None
        elif not _same(now, value):
            patch[name] = value
    return patch


def replacement(present: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the merge patch that turns `present` into `wanted`: other members are removed."""
    patch: dict[str, Any] = {name: None for name in present if name not in wanted}
    for name, value in wanted.items():
        before = present.get(name)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            value = replacement(_mapping(before), _mapping(value))  # noqa: PLW2901
        patch[name] = value
    return patch


def _same(a: Any, b: Any) -> bool:
    """Return whether two values are the same JSON; views have tuples where plain data has lists."""
    if a == b:
        return True
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        first, second = cast("Sequence[Any]", a), cast("Sequence[Any]", b)
        return len(first) == len(second) and all(map(_same, first, second))
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        left, right = _mapping(a), _mapping(b)
        return left.keys() == right.keys() and all(_same(left[k], right[k]) for k in left)
    return False


def holds_list(patch: Any) -> bool:
    """Return whether `patch` has a list, which replaces a whole list and needs a precondition."""
    if isinstance(patch, Mapping):
        return any(holds_list(value) for value in cast("Mapping[str, Any]", patch).values())
    return isinstance(patch, list | tuple)


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
