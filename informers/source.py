"""The interface to a server. Informers use no HTTP themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from contextlib import AbstractAsyncContextManager


class Source(Protocol):
    """One collection of one API server, restricted to a scope and selectors.

    Both methods check the status before the body is read and raise `informers.SourceError`
    and nothing else.
    """

    @property
    def description(self) -> str:
        """For messages: `pods in all namespaces (ray.io/cluster)`."""
        ...

    async def list(self, query: Mapping[str, str]) -> bytes:
        """Return the body of one page.

        Args:
            query: `limit`, `continue`, `resourceVersion`, `resourceVersionMatch`; added to the
                source's own selectors. Absent parameters must stay absent.
        """
        ...

    def watch(self, query: Mapping[str, str]) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a stream of chunks of any size, split anywhere; leaving the context closes it.

        Args:
            query: all parameters of the watch, including `watch=1` and `timeoutSeconds`.
        """
        ...
