"""InferenceSet, replicas of a Workspace: the cached view and its typed specification.

As in `workspace`, the cached object keeps plain data, and what parses it raises the errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Final

import msgspec

from controller.apimachinery.custom_object import CustomObject, only, parse, read_conditions
from controller.apimachinery.schedule import (
    InvalidDuration,
    InvalidSchedule,
    parse_schedule,
    read_duration,
)
from controller.apimachinery.validation import Problem, malformed
from controller.kaito.api.fields import FieldError, as_problem, invalid_value, missing_field, via
from controller.kaito.api.labels import label_problem
from controller.kaito.api.options import KaitoOptions
from controller.kaito.api.validation import MAX_NAME, validate_workspace
from controller.kaito.api.workspace import LabelSelector, Partition, Workspace
from controller.kube.objects import ObjectMeta, View
from controller.kube.resources import Resource

_Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]


class InferenceSet(CustomObject, frozen=True, gc=True, weakref=True):
    """A cached InferenceSet."""

    spec: Any = msgspec.field(default_factory=dict[str, Any])

    status_fields: ClassVar = {
        "autoUpgrade": only(dict),
        "conditions": read_conditions,
        "performance": only(dict),
        "readyReplicas": only(int),
        "replicas": only(int),
        "selector": only(str),
    }


INFERENCE_SETS: Final = Resource(
    "kaito.sh", "v1beta1", "inferencesets", "InferenceSet", InferenceSet
)


class WorkspaceTemplateMetadata(View, frozen=True):
    """`spec.template.metadata`."""

    labels: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    annotations: dict[str, str] = msgspec.field(default_factory=dict[str, str])


class TemplateResource(View, frozen=True):
    """`spec.template.resource`."""

    instance_type: str = ""
    partition: Partition | None = None


class WorkspaceTemplate(View, frozen=True):
    """`spec.template`; `inference` stays plain data, copied to the Workspaces."""

    metadata: WorkspaceTemplateMetadata = WorkspaceTemplateMetadata()
    resource: TemplateResource = TemplateResource()
    inference: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])


class MaintenanceWindow(View, frozen=True):
    """`spec.autoUpgrade.maintenanceWindow`."""

    schedule: str = ""
    duration: str = "4h"


class AutoUpgrade(View, frozen=True):
    """`spec.autoUpgrade`."""

    enabled: bool = False
    strategy: str = "InPlace"
    maintenance_window: MaintenanceWindow | None = None

    @property
    def has_surge(self) -> bool:
        """True if replicas are upgraded by other ones."""
        return self.strategy == "Surge"


class InferenceSetSpec(View, frozen=True):
    """`spec` of an InferenceSet."""

    template: WorkspaceTemplate = WorkspaceTemplate()
    replicas: Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)] = 1
    node_count_limit: _Count = 0
    label_selector: LabelSelector | None = None
    auto_upgrade: AutoUpgrade | None = None

    def upgrade_policy(self, options: KaitoOptions) -> AutoUpgrade | None:
        """Return how the replicas get new images; None if not, as those of templates never do."""
        policy = self.auto_upgrade
        if policy is None or not policy.enabled or "preset" not in self.template.inference:
            return None
        return policy if options.auto_upgrade else None


INVALID_SET: Final = "InvalidInferenceSetSpec"
_TEMPLATE: Final = "spec.template"
MAX_REPLICAS: Final = 10_000
"""Twice as many as the nodes of the largest clusters. Kaito has no limit, and an autoscaler or a
typing error may ask for two thousand million."""

SUFFIX: Final = 6
"""Characters that the names of the Workspaces add."""


def validate_inference_set(
    inference_set: InferenceSet, options: KaitoOptions
) -> InferenceSetSpec | Problem:
    """Return the specification if Kaito's rules, also of its Workspaces, admit it; or a problem."""
    try:
        spec = parse(inference_set.spec, InferenceSetSpec)
    except msgspec.ValidationError as error:
        return malformed(error, "spec").or_reason(INVALID_SET)
    errors = tuple(_errors(inference_set, spec, options))
    return as_problem(errors, INVALID_SET) or _workspace_problem(inference_set, spec, options)


def _errors(
    inference_set: InferenceSet, spec: InferenceSetSpec, options: KaitoOptions
) -> Iterator[FieldError]:
    problem = label_problem(inference_set.metadata.name)
    if problem:
        yield invalid_value(problem, "name")
    if spec.replicas < 0:
        yield invalid_value(spec.replicas, "spec.replicas", "must be non-negative")
    elif spec.replicas > MAX_REPLICAS:
        yield invalid_value(spec.replicas, "spec.replicas", f"must be at most {MAX_REPLICAS}")
    instance_type = spec.template.resource.instance_type
    if options.has_own_nodes and instance_type:
        why = "instanceType must be empty when nodeProvisioner is byo"
        yield invalid_value(instance_type, f"{_TEMPLATE}.resource.instanceType", why)
    elif not options.has_own_nodes and not instance_type:
        yield from via(_TEMPLATE, [missing_field("resource.instanceType")])
    yield from via("spec.autoUpgrade.maintenanceWindow", _window_errors(spec.auto_upgrade))


def _window_errors(policy: AutoUpgrade | None) -> Iterator[FieldError]:
    window = policy and policy.maintenance_window
    if not window:
        return
    if not window.schedule:
        yield missing_field("schedule")
        return
    try:
        parse_schedule(window.schedule)
    except InvalidSchedule as error:
        why = f"invalid cron expression: {error}"
        yield invalid_value(window.schedule, "schedule", why)
    try:
        if read_duration(window.duration) <= 0:
            yield invalid_value(window.duration, "duration", "must be a positive duration")
    except InvalidDuration as error:
        yield invalid_value(window.duration, "duration", str(error))


def _workspace_problem(
    inference_set: InferenceSet, spec: InferenceSetSpec, options: KaitoOptions
) -> InferenceSetSpec | Problem:
    """Return the specification, or the problem of each Workspace that would be created."""
    name, namespace = inference_set.metadata.name, inference_set.metadata.namespace
    longest = MAX_NAME - SUFFIX
    if len(name) > longest:
        message = (
            f"has {len(name)} characters; at most {longest} leave room for the names of its "
            "workspaces: create the set under a shorter name"
        )
        return Problem("metadata.name", message, INVALID_SET)
    resource = {
        "instanceType": spec.template.resource.instance_type,
        "labelSelector": inference_set.spec.get("labelSelector"),
        "partition": inference_set.spec["template"].get("resource", {}).get("partition"),
    }
    annotations = spec.template.metadata.annotations
    meta = ObjectMeta(name=name, namespace=namespace, annotations=annotations)
    workspace = Workspace(meta, resource=resource, inference=spec.template.inference)
    checked = validate_workspace(workspace, options)
    if isinstance(checked, Problem):
        return Problem(f"{_TEMPLATE}.{checked.field}", checked.message, INVALID_SET)
    return spec
