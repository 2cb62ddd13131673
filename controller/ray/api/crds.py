"""The CustomResourceDefinitions that Manta serves.

`v1` is stored and fully described. `v1alpha1` is served for objects and clients of old and kept
as it is: the operator itself never speaks it.
"""

from __future__ import annotations

from typing import Any, Final

from controller.ray.api.raycluster_schema import raycluster_schema

Definition = dict[str, Any]

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


def custom_resource_definitions() -> list[Definition]:
    """All definitions, as plain data ready to be created."""
    return [raycluster_definition()]


def raycluster_definition() -> Definition:
    """The definition of RayCluster."""
    columns = [_column(*column) for column in _RAYCLUSTER_COLUMNS]
    v1: Definition = {
        "name": "v1",
        "served": True,
        "storage": True,
        "additionalPrinterColumns": columns,
        "schema": {"openAPIV3Schema": raycluster_schema()},
        "subresources": {"status": {}},
    }
    v1alpha1: Definition = {
        "name": "v1alpha1",
        "served": True,
        "storage": False,
        "deprecated": True,
        "deprecationWarning": "ray.io/v1alpha1 RayCluster is deprecated; use ray.io/v1 RayCluster",
        "additionalPrinterColumns": columns,
        "schema": {
            "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        },
        "subresources": {"status": {}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "rayclusters.ray.io"},
        "spec": {
            "group": "ray.io",
            "names": {
                "categories": ["all"],
                "kind": "RayCluster",
                "listKind": "RayClusterList",
                "plural": "rayclusters",
                "singular": "raycluster",
            },
            "scope": "Namespaced",
            "versions": [v1, v1alpha1],
        },
    }


def _column(name: str, kind: str, path: str, priority: int) -> Definition:
    column: Definition = {"name": name, "type": kind, "jsonPath": path}
    return column | {"priority": priority} if priority else column
