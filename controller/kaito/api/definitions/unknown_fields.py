"""Unknown fields of the pod template that a Workspace may have of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controller.apimachinery.custom_object import dig
from controller.apimachinery.schemas.unknown_fields import UnknownField, unknown_fields
from controller.runtime.reconcile.definitions.unknown_fields import UnknownFieldFinder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.apimachinery.schemas.object_schema import ObjectSchema
    from controller.kaito.api.inferenceset import InferenceSet
    from controller.kaito.api.workspace import Workspace


def of_workspaces() -> UnknownFieldFinder:
    """Return a finder of the unknown fields of Workspaces; the objects may be invalid."""

    def find(workspace: Workspace, pod: ObjectSchema) -> Iterator[UnknownField]:
        template = dig(workspace.inference, "template")
        return _of_template(template, pod, "inference.template")

    return UnknownFieldFinder(find)


def of_inference_sets() -> UnknownFieldFinder:
    """Return a finder of those of InferenceSets, whose Workspaces get the template."""
    path = ("template", "inference", "template")

    def find(inference_set: InferenceSet, pod: ObjectSchema) -> Iterator[UnknownField]:
        return _of_template(dig(inference_set.spec, *path), pod, ".".join(("spec", *path)))

    return UnknownFieldFinder(find)


def _of_template(template: Any, pod: ObjectSchema, path: str) -> Iterator[UnknownField]:
    return unknown_fields(template, pod.part("metadata", "spec"), path)
