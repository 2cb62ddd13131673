"""Deletes an object that a component has seen in its cache."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from controller.kube.errors import Conflict, NotFound

if TYPE_CHECKING:
    from controller.kube.client import Client
    from controller.kube.objects import KubeObject
    from controller.kube.resources import Resource


async def delete_seen(
    client: Client, resource: Resource[Any], seen: KubeObject, *, grace_seconds: int | None = None
) -> None:
    """Delete exactly the object that was seen, if it still exists.

    Args:
        client: access to the API server.
        resource: resource of the object.
        seen: the object.
        grace_seconds: grace period of a pod in seconds; None for its own.

    Raises:
        controller.kube.errors.KubeError: the request failed.
    """
    meta = seen.metadata
    with suppress(NotFound, Conflict):
        await client.delete(
            resource, meta.namespace, meta.name, uid=meta.uid, grace_seconds=grace_seconds
        )
