"""Discovers which optional APIs a server has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controller.kube.errors import NotFound, PathNotFound

if TYPE_CHECKING:
    from controller.kube.client import Client
    from controller.kube.resources import Resource


async def is_served(client: Client, resource: Resource[Any]) -> bool:
    """Return whether the server serves this resource in this version.

    Raises:
        KubeError: the server gave no usable response.
    """
    root = resource.path().rpartition("/")[0]
    try:
        listed: dict[str, Any] = await client.request_json("GET", root)
    except (NotFound, PathNotFound):
        return False
    return any(each.get("name") == resource.plural for each in listed.get("resources") or ())
