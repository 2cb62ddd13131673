"""InferenceSet, replicas of a Workspace: the cached view and its typed specification.

As in `workspace`, the cached object keeps plain data, and `parse_inference_set` raises the errors.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final

import msgspec

from controller.apimachinery.custom_object import CustomObject, only, parse, read_conditions
from controller.kaito.api.workspace import LabelSelector, Partition  # noqa: TC001  decoded
from controller.kube.objects import View
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


class InferenceSetSpec(View, frozen=True):
    """`spec` of an InferenceSet."""

    template: WorkspaceTemplate = WorkspaceTemplate()
    replicas: Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)] = 1
    node_count_limit: _Count = 0
    label_selector: LabelSelector | None = None
    auto_upgrade: AutoUpgrade | None = None


def parse_inference_set(inference_set: InferenceSet) -> InferenceSetSpec:
    """Return the typed specification without nulls. It copies the data, so parse each object once.

    Raises:
        msgspec.ValidationError: a field has the wrong type.
    """
    return parse(inference_set.spec, InferenceSetSpec)
