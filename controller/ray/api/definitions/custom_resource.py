"""The outermost level of the schema of every kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.apimachinery.schemas.schema import string, struct

if TYPE_CHECKING:
    from controller.apimachinery.schemas.schema import Schema


def custom_resource(kind: str, description: str, spec: Schema, status: Schema) -> Schema:
    """Return the `openAPIV3Schema` of `kind`."""
    return struct(
        description,
        {
            "apiVersion": string("Version of the schema of this object."),
            "kind": string(f"{kind}."),
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status,
        },
    )
