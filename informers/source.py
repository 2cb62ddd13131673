"""The seam to the outside: what a reflector reads from. Informers know no HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from contextlib import AbstractAsyncContextManager


class Source(Protocol):
    """One collection of one API server, already narrowed to a scope and selectors.

    Both methods check the status before the body is read and raise `informers.SourceError`
    and nothing else.
    """

    @property
    def description(self) -> str:
        """For messages: `pods in all namespaces (ray.io/cluster)`."""
        ...

    async def list(self, query: Mapping[str, str]) -> bytes:
        """Body of one page.

        Args:
            query: `limit`, `continue`, `resourceVersion`, `resourceVersionMatch`; added to the
                source's own selectors. Parameters that must be absent are absent.
        """
        ...

    def watch(self, query: Mapping[str, str]) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a stream; iterate over its chunks, of any size, cut anywhere; leaving closes it.

        Args:
            query: all parameters of the watch, `watch=1` and `timeoutSeconds` included.
        """
        ...
