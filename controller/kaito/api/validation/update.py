"""Validates edits of immutable fields, with the messages of Kaito's webhook.

Both specifications are valid on their own. Rules that also hold for new specifications, such as
those about adapters, are in the other modules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.kaito.api.validation.field_errors import FieldError, invalid_value, via
from controller.kaito.api.validation.resource import selected_labels

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.kaito.api.workspace import (
        InferenceSpec,
        ResourceSpec,
        TuningSpec,
        WorkspaceSpec,
    )


def update_errors(spec: WorkspaceSpec, old: WorkspaceSpec) -> Iterator[FieldError]:
    """Yield the errors of an edit from `old` to `spec`."""
    if (spec.inference is None) is not (old.inference is None):
        yield FieldError("Inference field cannot be toggled once set", ("spec.inference",))
    if (spec.tuning is None) is not (old.tuning is None):
        yield FieldError("Tuning field cannot be toggled once set", ("spec.tuning",))
    yield from via("resource", _resource_errors(spec.resource, old.resource))
    if spec.inference is not None and old.inference is not None:
        yield from via("inference", _inference_errors(spec.inference, old.inference))
    if spec.tuning is not None and old.tuning is not None:
        yield from via("tuning", _tuning_errors(spec.tuning, old.tuning))


def _resource_errors(resource: ResourceSpec, old: ResourceSpec) -> Iterator[FieldError]:
    """Yield the errors of an edit of the nodes. The instance type may be removed (own nodes)."""
    if resource.count is not None and old.count is not None and resource.count != old.count:
        yield _immutable("count")
    if resource.partition != old.partition:
        yield _immutable("partition")
    if resource.instance_type and old.instance_type not in {"", resource.instance_type}:
        yield FieldError(
            "instanceType cannot be changed once set when node auto-provisioning is enabled",
            ("instanceType",),
        )
    if resource.label_selector != old.label_selector:
        yield from _selector_errors(resource, old)


def _selector_errors(resource: ResourceSpec, old: ResourceSpec) -> Iterator[FieldError]:
    """Yield the errors of an edited selector.

    Kaito compares only what it selects, but requests nodes by `matchLabels` alone. A label that is
    moved there from `matchExpressions` would request other nodes, so it is refused too.
    """
    selected = selected_labels(resource.label_selector)
    before = selected_labels(old.label_selector)
    if selected is None or before is None:
        yield FieldError("Only allow matchLabels or 'IN' matchExpression", ("labelSelector",))
    elif selected != before or resource.node_labels != old.node_labels:
        yield _immutable("labelSelector")


def _inference_errors(inference: InferenceSpec, old: InferenceSpec) -> Iterator[FieldError]:
    if inference.preset != old.preset:
        yield _immutable("preset")
    if (inference.template is None) is not (old.template is None):
        yield FieldError("field cannot be unset/set if it was set/unset", ("template",))


def _tuning_errors(tuning: TuningSpec, old: TuningSpec) -> Iterator[FieldError]:
    name, before = (each.input.name if each.input else "" for each in (tuning, old))
    if name != before:
        message = "During tuning Name field cannot be changed once set"
        yield invalid_value(message, "Input.Name")
    if tuning.preset != old.preset:
        yield FieldError("Preset cannot be changed", ("Preset",))
    if tuning.method.lower() != old.method.lower():
        yield FieldError("Method cannot be changed", ("Method",))


def _immutable(path: str) -> FieldError:
    return FieldError("field is immutable", (path,))
