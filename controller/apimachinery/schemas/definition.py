"""The parts of a CustomResourceDefinition around its schemas, as plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controller.apimachinery.schemas.schema import Schema

Definition: TypeAlias = dict[str, Any]
Column: TypeAlias = tuple[str, str, str, int]
"""Name, type, path and priority of a column that `kubectl get` prints."""


def definition(
    group: str,
    kind: str,
    *versions: Definition,
    category: str = "all",
    short_names: Sequence[str] = (),
) -> Definition:
    """Return the definition of a namespaced kind."""
    singular = kind.lower()
    names: Definition = {
        "categories": [category],
        "kind": kind,
        "listKind": f"{kind}List",
        "plural": f"{singular}s",
        "singular": singular,
    }
    if short_names:
        names["shortNames"] = list(short_names)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{singular}s.{group}"},
        "spec": {"group": group, "names": names, "scope": "Namespaced", "versions": list(versions)},
    }


def served_version(
    name: str, schema: Schema, columns: Sequence[Column], *, is_stored: bool
) -> Definition:
    """Return a served version that has a status."""
    return {
        "name": name,
        "served": True,
        "storage": is_stored,
        **printed(columns),
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }


def printed(columns: Sequence[Column]) -> Definition:
    """Return the columns of a version; empty if it has none of its own."""
    if not columns:
        return {}
    return {"additionalPrinterColumns": [_column(*column) for column in columns]}


def _column(name: str, kind: str, path: str, priority: int) -> Definition:
    column: Definition = {"name": name, "type": kind, "jsonPath": path}
    return column | {"priority": priority} if priority else column
