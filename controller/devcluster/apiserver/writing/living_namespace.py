"""Checks that the namespace of a new object exists and is not terminating."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.devcluster.apiserver.protocol.status import ApiError, forbidden

if TYPE_CHECKING:
    from controller.devcluster.apiserver.jsondata import Json
    from controller.devcluster.apiserver.resources.resource import ApiResource
    from controller.devcluster.apiserver.storage.store import ObjectStore


def require_living_namespace(
    store: ObjectStore, resource: ApiResource, namespace: str, object_: Json
) -> None:
    """Refuse to create in a namespace that does not exist or is terminating.

    Raises:
        ApiError: 404 or 403.
    """
    stored = store.table("namespaces").items.get(namespace)
    if stored is None:
        raise ApiError(
            404,
            "NotFound",
            f'namespaces "{namespace}" not found',
            {"name": namespace, "kind": "namespaces"},
        )
    if stored.object["metadata"].get("deletionTimestamp") is None:
        return
    metadata: Json = object_["metadata"]
    name = metadata.get("name") or metadata.get("generateName") or "Unknown"
    error = forbidden(
        resource.name,
        name,
        f"unable to create new content in namespace {namespace} because it is being terminated",
    )
    assert error.details is not None
    error.details["causes"] = [
        {
            "reason": "NamespaceTerminating",
            "message": f"namespace {namespace} is being terminated",
            "field": "metadata.namespace",
        }
    ]
    raise error
