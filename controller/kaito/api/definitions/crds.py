"""The CustomResourceDefinitions of the `kaito.sh` kinds, as plain data ready to be created.

`v1beta1` is the storage version, `v1alpha1` is served for old objects and clients, as Kaito does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.apimachinery.schemas.definition import definition, served_version
from controller.apimachinery.schemas.schema import string, struct
from controller.kaito.api.definitions.inferenceset import inference_set_spec, inference_set_status
from controller.kaito.api.definitions.workspace import workspace_fields, workspace_status

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from controller.apimachinery.schemas.definition import Column, Definition
    from controller.apimachinery.schemas.schema import Schema

_GROUP: Final = "kaito.sh"
_STORED: Final = "v1beta1"
_VERSIONS: Final = ("v1alpha1", _STORED)


def _condition_column(type_: str) -> Column:
    return (type_, "string", f'.status.conditions[?(@.type=="{type_}")].status', 0)


_AGE: Final = ("Age", "date", ".metadata.creationTimestamp", 0)
_WORKSPACE_COLUMNS: Final = (
    ("Instance", "string", ".resource.instanceType", 0),
    _condition_column("ResourceReady"),
    _condition_column("InferenceReady"),
    _condition_column("JobStarted"),
    _condition_column("WorkspaceSucceeded"),
    ("TargetNodeCount", "integer", ".status.targetNodeCount", 0),
    ("State", "string", ".status.state", 0),
    _AGE,
)
_INFERENCE_SET_COLUMNS: Final = (
    ("Replicas", "integer", ".spec.replicas", 0),
    ("ReadyReplicas", "integer", ".status.readyReplicas", 0),
    _AGE,
)


def kaito_definitions() -> list[Definition]:
    """Return all definitions."""
    return [workspace_definition(), inference_set_definition()]


def workspace_definition() -> Definition:
    """Return the definition of Workspace."""
    description = "A model that is served or tuned, on nodes of its own."
    versions = [
        _version(
            version,
            description,
            {**workspace_fields(version), "status": workspace_status()},
            _WORKSPACE_COLUMNS,
        )
        for version in _VERSIONS
    ]
    return definition(
        _GROUP, "Workspace", *versions, category="workspace", short_names=("wk", "wks")
    )


def inference_set_definition() -> Definition:
    """Return the definition of InferenceSet."""
    description = "Copies of a workspace that serve one model."
    fields = {"spec": inference_set_spec(), "status": inference_set_status()}
    versions = [
        _version(version, description, fields, _INFERENCE_SET_COLUMNS, required=("spec",))
        for version in _VERSIONS
    ]
    for version in versions:
        version["subresources"]["scale"] = {
            "labelSelectorPath": ".status.selector",
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
        }
    return definition(
        _GROUP, "InferenceSet", *versions, category="inferenceset", short_names=("is", "isets")
    )


def _version(
    name: str,
    description: str,
    fields: Mapping[str, Schema],
    columns: Sequence[Column],
    required: Sequence[str] = (),
) -> Definition:
    common = {
        "apiVersion": string("Version of the schema of this object."),
        "kind": string("Kind of this object."),
        "metadata": {"type": "object"},
    }
    schema = struct(description, common | dict(fields), required=required)
    return served_version(name, schema, columns, is_stored=name == _STORED)
