"""Reads the schemas of resources from a server's OpenAPI v3 documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from controller.apimachinery.schemas.object_schema import GroupVersionKind, parse_schemas
from controller.kube.discovery import read_openapi_document
from controller.kube.errors import UnexpectedResponse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controller.apimachinery.schemas.object_schema import ObjectSchema
    from controller.kube.client import Client
    from controller.kube.resources import Resource


def by_document(resources: Iterable[Resource[Any]]) -> dict[str, list[Resource[Any]]]:
    """Group resources by the document that has their schemas: `api/v1`, `apis/ray.io/v1`."""
    documents: dict[str, list[Resource[Any]]] = {}
    for each in resources:
        name = f"apis/{each.api_version}" if each.group else f"api/{each.version}"
        documents.setdefault(name, []).append(each)
    return documents


async def read_schemas(
    client: Client, resources: Iterable[Resource[Any]], url: str
) -> dict[Resource[Any], ObjectSchema | None]:
    """Return the schemas of resources from the document at `url`; None where there is none.

    Raises:
        KubeError: the server gave no usable response.
    """
    kinds = {each: GroupVersionKind(each.group, each.version, each.kind) for each in resources}
    if not url:
        return dict.fromkeys(kinds)
    document = await read_openapi_document(client, url)
    try:
        found = parse_schemas(document, kinds.values())
    except (msgspec.DecodeError, RecursionError) as error:
        raise UnexpectedResponse(f"GET {url}: {error}") from error
    return {each: found.get(kind) for each, kind in kinds.items()}
