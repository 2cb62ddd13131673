"""Discovers which APIs a server has, and their schemas.

Every authenticated client may read both (the ClusterRole `system:discovery`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import parse_qsl

import msgspec

from controller.kube.errors import NotFound, PathNotFound, UnexpectedResponse

if TYPE_CHECKING:
    from controller.kube.client import Client
    from controller.kube.resources import Resource


class _Entry(msgspec.Struct):
    url: str = msgspec.field(name="serverRelativeURL")


class _Served(msgspec.Struct):
    name: str = ""


class _ServedList(msgspec.Struct):
    """The resources of one group and version. A body without its kind comes from somebody else."""

    kind: Literal["APIResourceList"]
    resources: list[_Served] | None = None


class _Index(msgspec.Struct):
    """The index of the OpenAPI v3 documents."""

    paths: dict[str, _Entry]


async def is_served(client: Client, resource: Resource[Any]) -> bool:
    """Return whether the server serves this resource in this version.

    Raises:
        KubeError: the server gave no usable response.
    """
    root = resource.path().rpartition("/")[0]
    try:
        listed = msgspec.convert(await client.request_json("GET", root), _ServedList)
    except (NotFound, PathNotFound):
        return False
    except msgspec.ValidationError as error:
        raise UnexpectedResponse(f"GET {root}: {error}") from error
    return any(each.name == resource.plural for each in listed.resources or ())


async def openapi_documents(client: Client) -> dict[str, str]:
    """Return the server's OpenAPI v3 documents: URLs by group version (`api/v1`, `apis/ray.io/v1`).

    A URL has the hash of its document and changes with it.

    Raises:
        KubeError: the server gave no usable response.
    """
    answer: Any = await client.request_json("GET", "/openapi/v3")
    try:
        if isinstance(answer, str):  # API servers send JSON as text/plain here
            answer = msgspec.json.decode(answer)
        index = msgspec.convert(answer, _Index)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UnexpectedResponse(f"GET /openapi/v3: {error}") from error
    return {place: entry.url for place, entry in index.paths.items()}


async def read_openapi_document(client: Client, url: str) -> bytes:
    """Return one of these documents.

    Raises:
        KubeError: the server gave no usable response.
    """
    path, _, query = url.partition("?")
    return await client.read_page(path, dict(parse_qsl(query)))
