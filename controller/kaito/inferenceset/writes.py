"""Writes that create, label and delete the Workspaces of an InferenceSet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.kaito.api.inferenceset import INFERENCE_SETS
from controller.kaito.api.workspace import WORKSPACES
from controller.kaito.inferenceset.body import label_changes, workspace_body
from controller.kaito.inferenceset.observation import SCOPE
from controller.runtime.plan import Create, Delete, Event, MergePatch, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.kaito.inferenceset.decision import SetDecision
    from controller.kaito.inferenceset.observation import InferenceSetObservation
    from controller.kube.objects import ObjectMeta


def set_target(inference_set: ObjectMeta) -> Target:
    """Return the InferenceSet as the target of a write."""
    return Target(INFERENCE_SETS, inference_set.namespace, inference_set.name, "inferenceset")


def create_workspaces(seen: InferenceSetObservation, decision: SetDecision) -> Iterator[Create]:
    """Create the replicas that are missing."""
    for name in decision.create:
        body = workspace_body(seen.inference_set, seen.spec, name, seen.settings.options)
        created = Event(
            "Normal",
            "CreatedWorkspace",
            "Create",
            f"Created Workspace {name}",
            "Created {count} Workspaces",
        )
        yield Create(_target(seen, name), body, on_success=created)


def delete_workspaces(seen: InferenceSetObservation, decision: SetDecision) -> Iterator[Delete]:
    """Delete surplus replicas."""
    why = f"the set has {seen.spec.replicas} replicas"
    for each in decision.delete:
        deleted = Event(
            "Normal",
            "DeletedWorkspace",
            "Delete",
            f"Deleted Workspace {each.name}: {why}",
            f"Deleted {{count}} Workspaces: {why}",
        )
        yield Delete(_target(seen, each.name), each.uid, on_success=deleted)


def label_workspaces(seen: InferenceSetObservation, decision: SetDecision) -> Iterator[MergePatch]:
    """Add labels that existing replicas lack: an edit brought them, or another writer took them."""
    leaving = {each.name for each in decision.delete}
    for workspace in seen.workspaces or ():
        meta = workspace.metadata
        if meta.terminating or meta.name in leaving:
            continue
        patch = label_changes(seen.inference_set, seen.spec, workspace)
        if patch:
            yield MergePatch(_target(seen, meta.name), meta.uid, patch)


def _target(seen: InferenceSetObservation, name: str) -> Target:
    return Target(WORKSPACES, seen.inference_set.metadata.namespace, name, SCOPE)
