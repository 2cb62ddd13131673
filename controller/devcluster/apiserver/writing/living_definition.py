"""Checks that the definition of a new custom resource stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.devcluster.apiserver.protocol.status import forbidden

if TYPE_CHECKING:
    from controller.devcluster.apiserver.jsondata import Json
    from controller.devcluster.apiserver.resources.resource import ApiResource
    from controller.devcluster.apiserver.storage.store import ObjectStore


def require_living_definition(store: ObjectStore, resource: ApiResource, object_: Json) -> None:
    """Refuse to create an object whose definition is being deleted.

    Raises:
        ApiError: 403.
    """
    stored = store.table("customresourcedefinitions.apiextensions.k8s.io").items.get(resource.table)
    if stored is None or stored.object["metadata"].get("deletionTimestamp") is None:
        return
    metadata: Json = object_["metadata"]
    why = "create not allowed while custom resource definition is terminating"
    raise forbidden(resource.name, metadata.get("name", ""), why)
