"""The source of an informer: one collection of one API server, read through a client.

Transport failures and statuses become the closed set of errors that reflectors handle.
"""

from __future__ import annotations

from contextlib import aclosing, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

from controller.kube import responses
from controller.kube.errors import (
    NotSent,
    OutcomeUnknown,
    Paused,
    StatusError,
    UnexpectedResponse,
)
from informers import (
    ConnectionRefused,
    Disconnected,
    Malformed,
    Throttled,
    error_from_status,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Mapping

    from controller.kube.client import Client
    from controller.kube.resources import Resource
    from controller.kube.transport import Chunks


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
            responses.check_kind(body, self._list_kind)
        return body

    @asynccontextmanager
    async def watch(self, query: Mapping[str, str]) -> AsyncGenerator[AsyncIterator[bytes]]:
        """Open a stream; see `informers.Source.watch`."""
        with translate_errors():
            async with (
                self._client.stream(self._path, {**self._selectors, **query}) as chunks,
                aclosing(_translating(chunks)) as lines,
            ):
                if self._on_watch is not None:
                    self._on_watch()
                yield lines


async def _translating(chunks: Chunks) -> Chunks:
    with translate_errors():
        async for chunk in chunks:
            yield chunk


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
