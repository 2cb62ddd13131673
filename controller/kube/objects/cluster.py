"""Namespaces, nodes, roles and definitions, and the data that pods read and store."""

from __future__ import annotations

from typing import Any

from controller.kube.objects.metadata import KubeObject, View


class ClaimResources(View, frozen=True):
    """`spec.resources` of a PersistentVolumeClaim."""

    requests: dict[str, str | int | float] | None = None


class ClaimSpec(View, frozen=True):
    """`spec` of a PersistentVolumeClaim."""

    access_modes: tuple[str, ...] = ()
    storage_class_name: str | None = None
    resources: ClaimResources = ClaimResources()


class PersistentVolumeClaim(KubeObject, frozen=True):
    """A PersistentVolumeClaim."""

    spec: ClaimSpec = ClaimSpec()


class ConfigMap(KubeObject, frozen=True):
    """A ConfigMap."""

    data: dict[str, str] | None = None


class NamespaceStatus(View, frozen=True):
    """`status` of a Namespace."""

    phase: str = ""


class NamespaceSpec(View, frozen=True):
    """`spec` of a Namespace."""

    finalizers: tuple[str, ...] = ()


class Namespace(KubeObject, frozen=True):
    """A Namespace."""

    spec: NamespaceSpec = NamespaceSpec()
    status: NamespaceStatus = NamespaceStatus()


class Node(KubeObject, frozen=True):
    """A Node."""


class Role(KubeObject, frozen=True):
    """A Role. The API server writes null if there are no rules."""

    rules: tuple[dict[str, Any], ...] | None = None


class RoleBinding(KubeObject, frozen=True):
    """A RoleBinding."""

    subjects: tuple[dict[str, Any], ...] | None = None
    role_ref: dict[str, Any] | None = None


class CustomResourceDefinition(KubeObject, frozen=True):
    """A CustomResourceDefinition; the specification stays plain data."""

    spec: dict[str, Any] | None = None
