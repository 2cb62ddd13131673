"""Strategic merge patch: lists of built-in kinds are merged by a key."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from controller.devcluster.apiserver.jsondata import Json

from controller.devcluster.apiserver.patches.merge import merge_patch


def strategic_merge_patch(kind: str, target: Json, patch: Json) -> Json:
    """Apply a strategic merge patch to `target`, in place."""
    return merge_patch(target, patch)
