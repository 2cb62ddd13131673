"""What a server has besides single objects: collections for informers, resources and schemas."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Literal
from urllib.parse import parse_qsl

import msgspec

from controller.kube.client import Client
from controller.kube.errors import (
    NotFound,
    NotSent,
    OutcomeUnknown,
    PathNotFound,
    Paused,
    StatusError,
    UnexpectedResponse,
)
from controller.kube.resources import Resource
from controller.kube.transport import check_kind
from informers import (
    ConnectionRefused,
    Disconnected,
    Malformed,
    Throttled,
    error_from_status,
)


class ResourceSource:
    """`informers.Source` for one resource, one scope and one selector.

    Requests are not retried here: back-off belongs to the reflector (INF-29). The client's
    pause applies. `on_watch` is called whenever a watch begins.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource[Any],
        namespace: str = "",
        label_selector: str = "",
        *,
        on_watch: Callable[[], None] | None = None,
    ) -> None:
        self._path = resource.path(namespace)
        self._client = client.for_flow(self._path)
        self._list_kind = f"{resource.kind}List"
        self._selectors = {"labelSelector": label_selector} if label_selector else {}
        self._on_watch = on_watch
        self._description = _describe(resource, namespace, self._selectors.values())

    @property
    def description(self) -> str:
        """`pods in all namespaces (ray.io/cluster)`."""
        return self._description

    async def list(self, query: Mapping[str, str]) -> bytes:
        """Return the body of one page; see `informers.Source.list`."""
        with translate_errors():
            body = await self._client.read_page(self._path, {**self._selectors, **query})
            check_kind(body, self._list_kind)
        return body

    @asynccontextmanager
    async def watch(self, query: Mapping[str, str]) -> AsyncGenerator[AsyncIterator[bytes]]:
        """Open a stream; see `informers.Source.watch`."""
        # What an error of the stream raises in the caller's block passes here too.
        with translate_errors():
            async with self._client.stream(self._path, {**self._selectors, **query}) as chunks:
                if self._on_watch is not None:
                    self._on_watch()
                yield chunks


@contextmanager
def translate_errors() -> Generator[None]:
    """Raise the matching error of `informers` for each error of `controller.kube`."""
    try:
        yield
    except Paused as error:
        raise Throttled(str(error), retry_after=error.retry_after) from error
    except NotSent as error:
        raise ConnectionRefused(str(error)) from error
    except OutcomeUnknown as error:
        raise Disconnected(str(error)) from error
    except UnexpectedResponse as error:
        raise Malformed(str(error)) from error
    except StatusError as error:
        raise error_from_status(
            error.status.code,
            error.status.reason,
            str(error),
            causes=error.status.causes,
            retry_after=error.retry_after or 0.0,
        ) from error


def _describe(resource: Resource[Any], namespace: str, selectors: Any) -> str:
    where = ""
    if resource.namespaced:
        where = f" in namespace {namespace}" if namespace else " in all namespaces"
    chosen = ", ".join(selectors)
    return f"{resource}{where} ({chosen})" if chosen else f"{resource}{where}"


# Discovers which APIs a server has, and their schemas.
#
# Every authenticated client may read both (the ClusterRole `system:discovery`).


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
