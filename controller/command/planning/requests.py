"""The requests of `manta plan`: lists, and a server-side dry run of the manifest.

The dry run applies the server's own defaults, pruning and refusals, which are part of the plan.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import msgspec

from controller.apimachinery.patches.merge_patch import difference
from controller.apimachinery.schemas.published_schemas import by_document, read_schemas
from controller.kube.content_types import JSON, MERGE_PATCH
from controller.kube.discovery import openapi_documents
from controller.kube.errors import Forbidden, KubeError, NotFound, PathNotFound
from controller.runtime.kind import InstalledSchema

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controller.kube.client import Client
    from controller.kube.resources import Resource
    from controller.runtime.kind import Kind

Json = dict[str, Any]

_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_DRY_RUN: Final = {
    "dryRun": "All",
    "fieldManager": "manta-plan",
    "fieldValidation": "Strict",  # as kubectl
}


async def get_object(
    client: Client, resource: Resource[Any], namespace: str, name: str
) -> Json | None:
    """Return the object as it is, None if it does not exist."""
    try:
        return await client.get_raw(resource, namespace, name)
    except NotFound:
        return None


async def list_objects(client: Client, resource: Resource[Any], namespace: str) -> list[Json]:
    """Return all objects of a namespace, or of all namespaces if it is empty, by name."""
    try:
        listed: Json = await client.request_json("GET", resource.path(namespace))
    except PathNotFound:
        return []  # the server lacks this API
    items: list[Json] = listed.get("items") or []
    return sorted(items, key=lambda obj: (obj["metadata"]["namespace"], obj["metadata"]["name"]))


async def dry_run_apply(
    client: Client, resource: Resource[Any], namespace: str, manifest: Json, now: Json | None
) -> Json:
    """Return the object as `kubectl apply` of the manifest would leave it.

    Raises:
        StatusError: the API server would refuse it, in its own words.
    """
    applied = replace(resource, version=_version(manifest, resource))
    if now is None:
        answer = await client.request_json(
            "POST", applied.path(namespace), query=_DRY_RUN, body=manifest, content_type=JSON
        )
    else:
        path = applied.path(namespace, manifest["metadata"]["name"])
        patch = three_way_patch(now, manifest)
        answer = await client.request_json(
            "PATCH", path, query=_DRY_RUN, body=patch, content_type=MERGE_PATCH
        )
    return {**answer, "apiVersion": resource.api_version}


def _version(manifest: Json, resource: Resource[Any]) -> str:
    """Return the version in which kubectl applies a manifest; all versions have the same fields."""
    group, _, version = str(manifest.get("apiVersion")).partition("/")
    return version if group == resource.group and version else resource.version


async def list_children(
    client: Client, kinds: Iterable[Kind[Any]], namespace: str
) -> dict[Resource[Any], list[Json]]:
    """Return all objects in the namespace that kinds may own, by resource, without missing APIs."""
    found: dict[Resource[Any], list[Json]] = {}
    for owned in {each.resource: each for kind in kinds for each in kind.owned}.values():
        query = {"labelSelector": owned.label_selector} if owned.label_selector else {}
        try:
            listed: Json = await client.request_json(
                "GET", owned.resource.path(namespace), query=query
            )
        except PathNotFound:
            continue  # the server lacks this API
        except Forbidden:
            if owned.optional:
                continue  # as the operator does without it
            raise
        found[owned.resource] = listed.get("items") or []
    return found


def three_way_patch(now: Json, manifest: Json) -> Json:
    """Return the merge patch of `kubectl apply`: it sets what the file has, removes what it had."""
    annotations: Mapping[str, str] = now["metadata"].get("annotations") or {}
    last = annotations.get(_LAST_APPLIED)
    wanted = manifest
    if last is not None:
        wanted = _with_removals(msgspec.json.decode(last), manifest)
    wanted = {key: value for key, value in wanted.items() if key not in {"status", "kind"}}
    return difference(now, wanted)


def _with_removals(last: Any, manifest: Json) -> Json:
    result = dict(manifest)
    for key, value in last.items():
        if key not in manifest:
            result[key] = None
        elif isinstance(value, dict) and isinstance(manifest[key], dict):
            result[key] = _with_removals(value, manifest[key])
    return result


async def installed_schemas(
    client: Client, resources: Iterable[Resource[Any]]
) -> dict[Resource[Any], InstalledSchema]:
    """Return the published schemas; those that cannot be read are left out."""
    try:
        urls = await openapi_documents(client)
        found = [
            await read_schemas(client, group, urls.get(document, ""))
            for document, group in by_document(resources).items()
        ]
    except KubeError:
        return {}
    return {each: InstalledSchema(schema) for group in found for each, schema in group.items()}
