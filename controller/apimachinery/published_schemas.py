"""Reads the schema of a resource from a server's OpenAPI v3 documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from controller.apimachinery.object_schema import GroupVersionKind, parse_schema
from controller.kube.discovery import read_openapi_document
from controller.kube.errors import UnexpectedResponse

if TYPE_CHECKING:
    from controller.apimachinery.object_schema import ObjectSchema
    from controller.kube.client import Client
    from controller.kube.resources import Resource


def document_of(resource: Resource[Any]) -> str:
    """The name of the document that has the resource's schema: `api/v1`, `apis/ray.io/v1`."""
    return f"apis/{resource.api_version}" if resource.group else f"api/{resource.version}"


async def read_schema(client: Client, resource: Resource[Any], url: str) -> ObjectSchema | None:
    """The schema in the document at `url`; None if it has none, or if `url` is empty.

    Raises:
        KubeError: the server gave no usable response.
    """
    if not url:
        return None
    document = await read_openapi_document(client, url)
    kind = GroupVersionKind(resource.group, resource.version, resource.kind)
    try:
        return parse_schema(document, kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UnexpectedResponse(f"GET {url}: {error}") from error
