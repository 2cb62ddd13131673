"""The CustomResourceDefinitions that Manta serves.

`v1` is stored and fully described. `v1alpha1` is served for objects and clients of old and kept
as it is: the operator itself never speaks it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controller.ray.api.raycluster_schema import raycluster_schema
from controller.ray.api.rayjob_schema import rayjob_schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controller.ray.api.schema import Schema

Definition = dict[str, Any]
Column = tuple[str, str, str, int]

_RAYCLUSTER_COLUMNS: Final = (
    ("desired workers", "integer", ".status.desiredWorkerReplicas", 0),
    ("available workers", "integer", ".status.availableWorkerReplicas", 0),
    ("cpus", "string", ".status.desiredCPU", 0),
    ("memory", "string", ".status.desiredMemory", 0),
    ("gpus", "string", ".status.desiredGPU", 0),
    ("tpus", "string", ".status.desiredTPU", 1),
    ("status", "string", ".status.state", 0),
    ("age", "date", ".metadata.creationTimestamp", 0),
    ("head pod IP", "string", ".status.head.podIP", 1),
    ("head service IP", "string", ".status.head.serviceIP", 1),
    ("reason", "string", '.status.conditions[?(@.type=="Ready")].reason', 0),
)
"""KubeRay's, in its order, and after them why the cluster is not ready."""


_RAYJOB_COLUMNS: Final = (
    ("job status", "string", ".status.jobStatus", 0),
    ("deployment status", "string", ".status.jobDeploymentStatus", 0),
    ("ray cluster name", "string", ".status.rayClusterName", 0),
    ("start time", "string", ".status.startTime", 0),
    ("end time", "string", ".status.endTime", 0),
    ("age", "date", ".metadata.creationTimestamp", 0),
    ("failed attempts", "integer", ".status.failed", 0),
    ("reason", "string", ".status.reason", 0),
)
"""KubeRay's, in its order, and after them how many attempts failed, and why the last one did."""


def custom_resource_definitions() -> list[Definition]:
    """All definitions, as plain data ready to be created."""
    return [raycluster_definition()]


def raycluster_definition() -> Definition:
    """The definition of RayCluster."""
    return _definition("RayCluster", raycluster_schema(), _RAYCLUSTER_COLUMNS, in_v1alpha1=True)


def rayjob_definition() -> Definition:
    """The definition of RayJob."""
    return _definition("RayJob", rayjob_schema(), _RAYJOB_COLUMNS, in_v1alpha1=False)


def _definition(
    kind: str, schema: Schema, columns: Sequence[Column], *, in_v1alpha1: bool
) -> Definition:
    """A definition with both versions; `in_v1alpha1` whether the old one has columns as well."""
    printed = {"additionalPrinterColumns": [_column(*column) for column in columns]}
    v1: Definition = {
        "name": "v1",
        "served": True,
        "storage": True,
        **printed,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    v1alpha1: Definition = {
        "name": "v1alpha1",
        "served": True,
        "storage": False,
        "deprecated": True,
        "deprecationWarning": f"ray.io/v1alpha1 {kind} is deprecated; use ray.io/v1 {kind}",
        **(printed if in_v1alpha1 else {}),
        "schema": {
            "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        },
        "subresources": {"status": {}},
    }
    plural = f"{kind.lower()}s"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.ray.io"},
        "spec": {
            "group": "ray.io",
            "names": {
                "categories": ["all"],
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
            },
            "scope": "Namespaced",
            "versions": [v1, v1alpha1],
        },
    }


def _column(name: str, kind: str, path: str, priority: int) -> Definition:
    column: Definition = {"name": name, "type": kind, "jsonPath": path}
    return column | {"priority": priority} if priority else column
