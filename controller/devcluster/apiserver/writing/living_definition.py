"""Checks that the definition of a new custom resource stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.devcluster.apiserver.status import ApiError

if TYPE_CHECKING:
    from controller.devcluster.apiserver.resource import ApiResource
    from controller.devcluster.apiserver.storage.store import ObjectStore


def require_living_definition(store: ObjectStore, resource: ApiResource) -> None:
    """Refuse to create an object whose definition is being deleted.

    Raises:
        ApiError: 405.
    """
    stored = store.table("customresourcedefinitions.apiextensions.k8s.io").items.get(resource.table)
    if stored is None or stored.object["metadata"].get("deletionTimestamp") is None:
        return
    raise ApiError(
        405,
        "MethodNotAllowed",
        "create not allowed while custom resource definition is terminating",
        resource.name.details(""),
    )
