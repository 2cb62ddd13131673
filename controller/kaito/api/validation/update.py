"""What of a Workspace may change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.kaito.api.field_errors import FieldError, invalid_value, missing_field, via
from controller.kaito.api.validation.inference import (
    changed_adapter_errors,
    duplicate_adapter_errors,
)
from controller.kaito.api.validation.resource import selected_labels
from controller.kaito.api.validation.tuning import changed_tuning_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.kaito.api.options import KaitoOptions
    from controller.kaito.api.workspace import (
        InferenceSpec,
        LabelSelector,
        ResourceSpec,
        WorkspaceSpec,
    )


def update_errors(
    spec: WorkspaceSpec, old: WorkspaceSpec, options: KaitoOptions
) -> tuple[FieldError, ...]:
    """Errors of a change from `old` to `spec`."""
    return tuple(_errors(spec, old, options))


def _errors(spec: WorkspaceSpec, old: WorkspaceSpec, options: KaitoOptions) -> Iterator[FieldError]:
    if (spec.inference is None) is not (old.inference is None):
        yield FieldError("Inference field cannot be toggled once set", ("spec.inference",))
    if (spec.tuning is None) is not (old.tuning is None):
        yield FieldError("Tuning field cannot be toggled once set", ("spec.tuning",))
    yield from via("resource", _resource_errors(spec.resource, old.resource, options))
    if spec.inference is not None and old.inference is not None:
        yield from via("inference", _inference_errors(spec.inference, old.inference))
    if spec.tuning is not None and old.tuning is not None:
        yield from via("tuning", changed_tuning_errors(spec.tuning, old.tuning))


def _resource_errors(
    resource: ResourceSpec, old: ResourceSpec, options: KaitoOptions
) -> Iterator[FieldError]:
    if resource.count is not None and old.count is not None and resource.count != old.count:
        yield _immutable("count")
    if resource.partition != old.partition:
        yield _immutable("partition")
    error = _instance_type_error(resource.instance_type, old.instance_type, options)
    if error is not None:
        yield error
    yield from _selector_errors(resource.label_selector, old.label_selector)


def _instance_type_error(new: str, old: str, options: KaitoOptions) -> FieldError | None:
    path = "instanceType"
    if not options.has_own_nodes:
        if not new:
            required = "instanceType is required when node auto-provisioning is enabled"
            return missing_field(required, path)
        if old not in {"", new}:
            return FieldError(
                "instanceType cannot be changed once set when node auto-provisioning is enabled",
                (path,),
            )
    elif new and not old:
        return invalid_value(
            "instanceType must be empty when node auto-provisioning is disabled (BYO scenario)",
            path,
        )
    elif new and new != old:
        return invalid_value("instanceType cannot be changed once set", path)
    return None


def _selector_errors(
    selector: LabelSelector | None, old: LabelSelector | None
) -> Iterator[FieldError]:
    selected, before = selected_labels(selector), selected_labels(old)
    if selected is None or before is None:
        yield FieldError("Only allow matchLabels or 'IN' matchExpression", ("labelSelector",))
    elif selected != before:
        yield _immutable("labelSelector")


def _inference_errors(inference: InferenceSpec, old: InferenceSpec) -> Iterator[FieldError]:
    if inference.preset != old.preset:
        yield _immutable("preset")
    if (inference.template is None) is not (old.template is None):
        yield FieldError("field cannot be unset/set if it was set/unset", ("template",))
    for adapter in inference.adapters:
        yield from changed_adapter_errors(adapter)
    yield from duplicate_adapter_errors(inference.adapters)


def _immutable(path: str) -> FieldError:
    return FieldError("field is immutable", (path,))
