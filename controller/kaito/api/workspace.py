"""Workspace: the cached view and its typed specification.

There is no `spec`: `resource`, `inference` and `tuning` stand beside `metadata`. The cached object
keeps plain data, and what parses it raises the errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, TypeAlias

import msgspec

from controller.apimachinery.custom_object import CustomObject, only, read_conditions
from controller.apimachinery.metadata import owner_reference
from controller.kaito.api import labels
from controller.kube.objects import ObjectMeta, View
from controller.kube.resources import Resource


class Workspace(CustomObject, frozen=True, gc=True, weakref=True):
    """A cached Workspace."""

    resource: Any = msgspec.field(default_factory=dict[str, Any])
    inference: Any = None
    tuning: Any = None

    status_fields: ClassVar = {
        "conditions": read_conditions,
        "performance": only(dict),
        "state": only(str),
        "targetNodeCount": only(int),
        "workerNodes": only(list),
    }


WORKSPACES: Final = Resource("kaito.sh", "v1beta1", "workspaces", "Workspace", Workspace)


class SelectorRequirement(View, frozen=True):
    """`matchExpressions[]`."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(View, frozen=True):
    """`resource.labelSelector`, of which only `matchLabels` selects nodes."""

    match_labels: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    match_expressions: tuple[SelectorRequirement, ...] = ()


class Partition(View, frozen=True):
    """`resource.partition`: part of a node's GPUs.

    Attributes:
        mode: `mig`, a slice of one GPU, or `accelerator`, some GPUs.
    """

    mode: str = ""
    profile: str = ""
    count: int | None = None


class ResourceSpec(View, frozen=True):
    """`resource`.

    Attributes:
        count: number of nodes, where it is not estimated.
        instance_type: instance type of the nodes; empty for existing nodes.
        preferred_nodes: kept but unused.
    """

    count: int | None = None
    instance_type: str = ""
    label_selector: LabelSelector | None = None
    preferred_nodes: tuple[str, ...] = ()
    partition: Partition | None = None

    @property
    def node_labels(self) -> dict[str, str]:
        """The labels that nodes must have."""
        selector = self.label_selector
        return labels.without_reserved(selector.match_labels) if selector else {}


class PresetOptions(View, frozen=True):
    """`preset.presetOptions`."""

    image: str = ""
    image_pull_secrets: tuple[str, ...] = ()
    model_access_secret: str = ""


class Preset(View, frozen=True):
    """`inference.preset` and `tuning.preset`."""

    name: str = ""
    access_mode: str = ""
    preset_options: PresetOptions = PresetOptions()


class DataSource(View, frozen=True):
    """`adapters[].source` and `tuning.input`."""

    name: str = ""
    urls: tuple[str, ...] = ()
    volume: dict[str, Any] | None = msgspec.field(default=None, name="volumeSource")
    image: str = ""
    image_pull_secrets: tuple[str, ...] = ()


class DataDestination(View, frozen=True):
    """`tuning.output`."""

    volume: dict[str, Any] | None = msgspec.field(default=None, name="volumeSource")
    image: str = ""
    image_push_secret: str = ""


class Adapter(View, frozen=True):
    """`inference.adapters[]`; `strength` is a number in words."""

    source: DataSource | None = None
    strength: str | None = None


class InferenceSpec(View, frozen=True):
    """`inference`.

    Attributes:
        template: a pod template of the user's own, plain data.
    """

    preset: Preset | None = None
    template: dict[str, Any] | None = None
    config: str = ""
    adapters: tuple[Adapter, ...] = ()


class TuningSpec(View, frozen=True):
    """`tuning`."""

    preset: Preset | None = None
    method: str = ""
    config: str = ""
    input: DataSource | None = None
    output: DataDestination | None = None


class WorkspaceSpec(View, frozen=True):
    """Everything beside `metadata` and `status`."""

    resource: ResourceSpec = ResourceSpec()
    inference: InferenceSpec | None = None
    tuning: TuningSpec | None = None


Body: TypeAlias = dict[str, Any]


def child(
    resource: Resource[Any],
    workspace: ObjectMeta,
    name: str,
    *,
    own_labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Body:
    """Return the head of a body: kind, names, and the Workspace as its controller."""
    metadata: Body = {"name": name, "namespace": workspace.namespace}
    if own_labels:
        metadata["labels"] = dict(own_labels)
    if annotations:
        metadata["annotations"] = dict(annotations)
    metadata["ownerReferences"] = [owner_reference(WORKSPACES, workspace)]
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
