"""The definitions of Kaito's kinds: those that ship, the installed ones, and what they lack."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from controller.apimachinery.custom_object import dig
from controller.apimachinery.object_schema import ObjectSchema, UnknownField, unknown_fields
from controller.apimachinery.schema import (
    Column,
    Definition,
    Schema,
    definition,
    read_schemas,
    served_version,
)
from controller.kube.objects import KubeObject
from controller.runtime import definitions
from controller.runtime.definitions import (
    EVENT_INTERVAL,
    InstalledDefinition,
    UnknownFieldFinder,
)
from controller.runtime.plan import Event, Plan

_GROUP: Final = "kaito.sh"
_STORED: Final = "v1beta1"
_VERSIONS: Final = ("v1alpha1", _STORED)
"""The old version is served for old objects and clients, as Kaito does. Nothing converts between
them, so both have all fields: with Kaito's own definitions a write under v1alpha1 loses those that
are newer (KAI-19)."""
_OLD_DEFAULT: Final = "Standard_NC24ads_A100_v4"
"""Kaito's default instance type in v1alpha1, which v1beta1 lacks."""


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


_SCHEMAS: Final = read_schemas("controller.kaito.api")


def kaito_definitions() -> list[Definition]:
    """Return the definitions of the `kaito.sh` kinds, ready to be created."""
    return [workspace_definition(), inference_set_definition()]


def workspace_definition() -> Definition:
    """Return the definition of Workspace."""
    versions = [_version(each, "Workspace", _WORKSPACE_COLUMNS) for each in _VERSIONS]
    fields = versions[0]["schema"]["openAPIV3Schema"]["properties"]
    fields["resource"]["properties"]["instanceType"]["default"] = _OLD_DEFAULT
    names = ("wk", "wks")
    return definition(_GROUP, "Workspace", *versions, category="workspace", short_names=names)


def inference_set_definition() -> Definition:
    """Return the definition of InferenceSet."""
    versions = [_version(each, "InferenceSet", _INFERENCE_SET_COLUMNS) for each in _VERSIONS]
    for version in versions:
        version["subresources"]["scale"] = {
            "labelSelectorPath": ".status.selector",
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
        }
    names = ("is", "isets")
    return definition(_GROUP, "InferenceSet", *versions, category="inferenceset", short_names=names)


def _version(name: str, kind: str, columns: Sequence[Column]) -> Definition:
    return served_version(name, _SCHEMAS.schema(kind), columns, is_stored=name == _STORED)


def _leaves(schema: Schema, path: str) -> Iterator[str]:
    """Yield the paths of the fields at or below a path that have no fields of their own."""
    fields = schema.get("items", schema).get("properties")
    if not fields:
        yield path
        return
    for name, each in fields.items():
        yield from _leaves(each, f"{path}.{name}")


WORKSPACE_FIELDS: Final = tuple(
    path
    for part in ("inference", "resource", "tuning")
    for path in _leaves(_SCHEMAS.schema(part), part)
    if "matchExpressions" not in path
)
"""The whole specification of a Workspace, which is hashed; `matchLabels` alone selects nodes."""

SET_TEMPLATE_FIELDS: Final = tuple(_leaves(_SCHEMAS.schema("set_template"), "spec.template"))
"""What an InferenceSet says of its Workspaces."""


def leave_as_it_is(obj: KubeObject, definition: InstalledDefinition) -> Plan | None:
    """Return a plan that writes nothing and reports why; None if the specification can be trusted.

    It cannot while the definition is unreadable, unlike those of the Ray kinds, or may have changed
    since the cached objects were read: a dropped field would cost a model.
    """
    if definition.error:
        note = (
            f"the installed definition of {definition.kind}s cannot be read ({definition.error}), "
            f"and a field that it drops would look like an edit. {definition.consequence}. Grant "
            "the operator the right to read /openapi/v3, as the ClusterRole system:discovery does"
        )
        event = Event("Warning", "DefinitionUnread", "Reconcile", note)
        return Plan(events=(event,), requeue_after=EVENT_INTERVAL)
    untouched = definitions.leave_as_it_is(obj, definition)
    if untouched is None and definition.awaited:
        return definitions.wait_for_definition(obj, definition)
    return untouched


def is_left_as_it_is(obj: KubeObject, definition: InstalledDefinition) -> bool:
    """Return whether no status is written either, not even one that names a failed write.

    That of a deletion is part of its plan, and stays.
    """
    return obj.metadata.terminating or leave_as_it_is(obj, definition) is not None


def template_fields(*path: str) -> UnknownFieldFinder:
    """Return a finder of the unknown fields of the template at a path; objects may be invalid."""

    def find(obj: Any, pod: ObjectSchema) -> Iterator[UnknownField]:
        template = dig(getattr(obj, path[0]), *path[1:])
        return unknown_fields(template, pod.part("metadata", "spec"), ".".join(path))

    return UnknownFieldFinder(find)
