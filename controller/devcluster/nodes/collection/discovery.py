"""Discovery of the resources of an API server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controller.devcluster.nodes.objects.views import KNOWN
from controller.kube.errors import NotFound
from controller.kube.objects import KubeObject
from controller.kube.resources import Resource

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from controller.kube.client import Client


async def discover(client: Client, *, verbs: AbstractSet[str]) -> list[Resource[Any]]:
    """Return every resource that has all of `verbs`, in the version that its group prefers.

    Raises:
        controller.kube.errors.KubeError: a discovery document could not be read.
    """
    found: dict[str, Resource[Any]] = {}
    for group, version in await _versions(client):
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        try:
            document = await client.request_json("GET", path)
        except NotFound:
            continue  # withdrawn since the list of groups was made
        for entry in document["resources"]:
            resource = _resource(group, version, entry)
            if "/" not in resource.plural and verbs <= set(entry["verbs"]):
                found.setdefault(str(resource), resource)
    return list(found.values())


async def _versions(client: Client) -> list[tuple[str, str]]:
    """Return all group versions, the preferred one of each group first."""
    versions = [("", "v1")]
    for group in (await client.request_json("GET", "/apis"))["groups"]:
        preferred = group["preferredVersion"]["version"]
        others = (entry["version"] for entry in group["versions"])
        ordered = [preferred, *(version for version in others if version != preferred)]
        versions += [(group["name"], version) for version in ordered]
    return versions


def _resource(group: str, version: str, entry: dict[str, Any]) -> Resource[Any]:
    resource = Resource(
        group, version, entry["name"], entry["kind"], KubeObject, namespaced=entry["namespaced"]
    )
    return KNOWN.get(str(resource), resource)
