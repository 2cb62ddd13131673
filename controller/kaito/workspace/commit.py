"""Stores in a Workspace's metadata what later writes depend on, before they are sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controller.kaito.api import labels
from controller.kaito.api.workspace import WORKSPACES
from controller.runtime.plan import MergePatch, Target

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.kube.objects import ObjectMeta


def workspace_target(workspace: ObjectMeta) -> Target:
    """Return the Workspace as the target of a write."""
    return Target(WORKSPACES, workspace.namespace, workspace.name, scope="workspace")


def commit_patch(workspace: ObjectMeta, annotations: Mapping[str, str]) -> MergePatch | None:
    """Return the patch that adds the finalizer and sets these annotations; None if all is there.

    Its precondition is the revision of the Workspace from which the values were decided: a process
    that has read an older one meets a conflict before it creates anything.
    """
    present = workspace.annotations or {}
    changed = {name: text for name, text in annotations.items() if present.get(name) != text}
    metadata: dict[str, Any] = {}
    if labels.WORKSPACE_FINALIZER not in workspace.finalizers:
        metadata["finalizers"] = [*workspace.finalizers, labels.WORKSPACE_FINALIZER]
    if changed:
        metadata["annotations"] = changed
    if not metadata:
        return None
    return MergePatch(
        workspace_target(workspace),
        workspace.uid,
        {"metadata": metadata},
        resource_version=workspace.resource_version,
    )
