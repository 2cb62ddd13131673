"""JSON merge patch (RFC 7386)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from controller.devcluster.apiserver.jsondata import Json


def merge_patch(target: Any, patch: Any) -> Any:
    """Apply a merge patch to `target`, which is changed in place where it is a map."""
    if not isinstance(patch, dict):
        return patch
    result = cast("Json", target) if isinstance(target, dict) else {}
    changes = cast("Json", patch)
    for key, value in changes.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result
