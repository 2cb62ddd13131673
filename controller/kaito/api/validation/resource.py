"""The nodes that a Workspace asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.kaito.api import labels
from controller.kaito.api.validation.fields import FieldError, invalid_value, missing_field
from controller.kaito.presets import (
    UnknownGPUs,
    gpus_of_slice,
    instance_type_names,
    may_be_provisioned,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.kaito.api.options import KaitoOptions
    from controller.kaito.api.workspace import (
        LabelSelector,
        Partition,
        ResourceSpec,
        SelectorRequirement,
    )

_OWN_NODES_ONLY: Final = (
    "GPU partitioning is only supported with BYO nodes (disableNodeAutoProvisioning=true)"
)
_OTHER_OPERATORS: Final = frozenset({"NotIn", "Exists", "DoesNotExist"})
_ONE_NODE: Final = (
    "Tuning does not currently support multinode configurations. Please set the node count to 1. "
    "Future support with DeepSpeed will allow this."
)


def instance_type_errors(resource: ResourceSpec, options: KaitoOptions) -> Iterator[FieldError]:
    """Yield the error of an instance type: required for provisioned nodes, else not allowed."""
    path = "resource.instanceType"
    if options.has_own_nodes and resource.instance_type:
        yield invalid_value(
            "instanceType must be empty when node auto-provisioning is disabled (BYO scenario)",
            path,
        )
    if not options.has_own_nodes and not resource.instance_type:
        required = "instanceType is required when node auto-provisioning is enabled"
        yield missing_field(required, path)


def inference_resource_errors(
    resource: ResourceSpec, options: KaitoOptions
) -> Iterator[FieldError]:
    """Yield errors that do not depend on the existing nodes."""
    if resource.count is not None and resource.count < 0:
        yield invalid_value(resource.count, "count", "must be non-negative")
    error = selector_error(resource.label_selector)
    if error is not None:
        yield error
    elif options.has_own_nodes:
        if resource.partition is not None:
            yield from partition_errors(resource.partition, options)
    elif resource.partition is not None:
        yield FieldError(_OWN_NODES_ONLY, ("partition",))
    elif resource.instance_type and not may_be_provisioned(options.cloud, resource.instance_type):
        known = " ".join(instance_type_names(options.cloud))
        yield invalid_value(
            f"Unsupported instance type {resource.instance_type}. Supported SKUs: [{known}]",
            "instanceType",
        )


def tuning_resource_errors(resource: ResourceSpec) -> Iterator[FieldError]:
    """Yield errors of the nodes of a tuning."""
    if resource.count is not None and resource.count > 1:
        yield invalid_value(_ONE_NODE, "count")
    if resource.partition is not None:
        yield invalid_value("GPU partitioning is not supported for tuning workloads", "partition")


def selector_error(selector: LabelSelector | None) -> FieldError | None:
    """Return the error of a selector that can select no nodes; None if it can."""
    if selector is None:
        return None
    for requirement in selector.match_expressions:
        problem = _requirement_problem(requirement)
        if problem:
            return invalid_value(problem, "labelSelector")
    if selector.match_labels and not labels.without_reserved(selector.match_labels):
        return invalid_value(
            "matchLabels must contain at least one non-reserved label", "labelSelector.matchLabels"
        )
    return None


def selected_labels(selector: LabelSelector | None) -> dict[str, str] | None:
    """Return the selector as a map, None if it cannot be written as one."""
    if selector is None:
        return {}
    if any(_requirement_problem(each) for each in selector.match_expressions):
        return None
    expressions = {each.key: each.values[0] for each in selector.match_expressions}
    return {**selector.match_labels, **expressions}


def _requirement_problem(requirement: SelectorRequirement) -> str:
    """Return why a requirement is not a pair of key and value; empty if it is one."""
    operator, old = requirement.operator, "be converted into the old label selector format"
    if operator == "In":
        single = len(requirement.values) == 1
        return "" if single else f'operator "{operator}" without a single value cannot {old}'
    if operator in _OTHER_OPERATORS:
        return f'operator "{operator}" cannot {old}'
    return f'"{operator}" is not a valid selector operator'


def partition_errors(partition: Partition, options: KaitoOptions) -> Iterator[FieldError]:
    """Yield errors of the requested part of a node's GPUs."""
    match partition.mode:
        case "mig":
            error = _slice_error(partition, options)
            if error is not None:
                yield error
        case "accelerator":
            yield from _accelerator_errors(partition, options)
        case mode:
            yield invalid_value(
                f'unsupported partition mode "{mode}", supported modes are "mig" and "accelerator"',
                "partition.mode",
            )


def _slice_error(partition: Partition, options: KaitoOptions) -> FieldError | None:
    if not options.mig:
        return FieldError(
            "MIG support is not enabled, set feature gate enableMIG=true", ("partition",)
        )
    if partition.count is not None:
        return invalid_value("count is only valid for accelerator mode", "partition.count")
    try:
        gpus_of_slice(partition.profile)
    except UnknownGPUs as error:
        return invalid_value(error, "partition.profile")
    return None


def _accelerator_errors(partition: Partition, options: KaitoOptions) -> Iterator[FieldError]:
    if not options.accelerators:
        yield FieldError(
            "accelerator partition support is not enabled, set feature gate enableAccelerator=true",
            ("partition",),
        )
        return
    if partition.profile:
        yield invalid_value("profile is not valid for accelerator mode", "partition.profile")
    if partition.count is None:
        yield missing_field("partition.count")
