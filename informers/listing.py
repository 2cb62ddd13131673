"""Lists: their requests, their pages, and the list that a watch begins with."""

from __future__ import annotations

import asyncio
from asyncio import TimerHandle
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Generic, Protocol

from msgspec import Struct

from informers.codec import Codec, Known, nothing
from informers.errors import Expired, Malformed
from informers.states import Listing, ReflectorContext, Streaming, Watching
from informers.store import (
    Bookmark,
    Ignored,
    Page,
    Removed,
    Replaced,
    T,
    Undecodable,
    Upserted,
    WatchEvent,
    is_newer,
    is_odd,
    key_of,
    revision_of,
)

# The interfaces to a server and to the time. Informers use no HTTP themselves.


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


class Clock(Protocol):
    """Monotonic time and timers. Production passes the running loop."""

    def time(self) -> float:
        """Return the seconds since a fixed moment."""
        ...

    def call_at(self, when: float, callback: Callable[..., Any], /, *args: Any) -> TimerHandle:
        """Call `callback` at `when`; the handle cancels it."""
        ...


# Query parameters of lists and watches: revisions, pages and bookmarks.

_PAGE_SIZE = 500
_ANY = "0"
"""Any revision in the server's cache; never reads etcd."""


class ListRequest(Struct, frozen=True, kw_only=True):
    """One list, before it is split into pages.

    Attributes:
        revision: empty for a quorum read, `"0"` for anything cached, else "not older than".
        limit: objects a page, 0 for all at once.
    """

    revision: str = ""
    limit: int = 0

    def first_page(self) -> dict[str, str]:
        """Return the parameters of the first page."""
        return _present(resourceVersion=self.revision, limit=str(self.limit or ""))

    def next_page(self, token: str) -> dict[str, str]:
        """Return the parameters of a later page: the token implies the revision."""
        return {"continue": token, "limit": str(self.limit)}


def list_request(state: Listing, held: str) -> ListRequest:
    """Return the list request for a store at revision `held` (INF-1, INF-4)."""
    revision = "" if state.context.at_quorum else held or _ANY
    return ListRequest(revision=revision, limit=_page_size(revision, state.context))


def watch_query(state: Streaming | Watching, held: str, timeout: int) -> dict[str, str]:
    """Return the query of a watch for a store at revision `held`.

    A streaming list requests initial events; a resumed watch must not.
    """
    query = {"watch": "1", "allowWatchBookmarks": "true", "timeoutSeconds": str(timeout)}
    if not isinstance(state, Streaming):
        return query | {"resourceVersion": held}
    revision = "" if state.context.at_quorum else held
    return (
        query
        | _present(resourceVersion=revision)
        | {"resourceVersionMatch": "NotOlderThan", "sendInitialEvents": "true"}
    )


def _page_size(revision: str, context: ReflectorContext) -> int:
    if context.paginates or revision in {"", _ANY}:
        return _PAGE_SIZE
    return 0  # a limit would bypass the server's cache and hit etcd


def _present(**parameters: str) -> dict[str, str]:
    return {name: value for name, value in parameters.items() if value}


# The temporary store of one streaming list.


class InitialState(Generic[T]):
    """Collects initial events, including deletions, until the end bookmark."""

    def __init__(self) -> None:
        self._objects: dict[str, T] = {}
        self._undecodable: dict[str, Undecodable] = {}
        self._revisions: dict[str, str] = {}

    def apply(self, event: WatchEvent[T]) -> None:
        """Apply one event, unless it tells nothing new about its object."""
        match event:
            case Upserted(obj) | Removed(obj) if not self._advances(key_of(obj), event):
                pass
            case Undecodable(key) if not self._advances(key, event):
                pass
            case Upserted(obj):
                self._undecodable.pop(key_of(obj), None)
                self._objects[key_of(obj)] = obj
            case Removed(obj):
                self._forget(key_of(obj))
            case Undecodable(key):
                self._forget(key)
                if not event.removed:
                    self._undecodable[key] = event
            case Bookmark() | Ignored():
                pass

    def _advances(self, key: str, event: WatchEvent[T]) -> bool:
        revision, shown = revision_of(event), self._revisions.get(key, "")
        if is_odd(revision, shown) or not is_newer(revision, shown):
            return False
        self._revisions[key] = revision
        return True

    def complete(self, revision: str) -> Replaced[T]:
        """Return the complete list at the revision of the end bookmark."""
        undecodable = tuple(self._undecodable.values())
        return Replaced(list(self._objects.values()), undecodable, revision)

    def _forget(self, key: str) -> None:
        self._objects.pop(key, None)
        self._undecodable.pop(key, None)


# Reads a list page by page, and no page twice.
#
# All pages are collected first, because a store is replaced as a whole. Pages are not prefetched,
# because the token of the next page is in the page being decoded.

_MOST_PAGES: Final = 10_000
"""Maximum pages of one list: five million objects."""


class Listed(Struct, Generic[T], frozen=True):
    """A whole list.

    Attributes:
        undecodable: objects that do not fit their type.
        paginated: whether there was more than one page.
    """

    objects: list[T]
    undecodable: tuple[Undecodable, ...]
    revision: str
    paginated: bool


async def read_list(
    source: Source, codec: Codec[T], request: ListRequest, known: Known[T] = nothing
) -> Listed[T]:
    """Read all pages; if the snapshot expires meanwhile, read the whole list at once (INF-6).

    `known` returns the present version of an object by its key.

    Raises:
        Malformed: pages repeat, so that they might never end.
        SourceError: a page failed. `Expired` is raised for the first page only.
    """
    first = codec.page(await source.list(request.first_page()), known)
    if not first.continue_:
        return Listed(first.objects, first.undecodable, first.revision, paginated=False)
    try:
        return await _read_rest(source, codec, request, known, first)
    except Expired:
        whole = ListRequest(revision=request.revision)
    page = codec.page(await source.list(whole.first_page()), known)
    if page.continue_:
        raise Malformed("a list without a limit came in pages")
    return Listed(page.objects, page.undecodable, page.revision, paginated=True)


async def _read_rest(
    source: Source, codec: Codec[T], request: ListRequest, known: Known[T], first: Page[T]
) -> Listed[T]:
    objects, undecodable = first.objects, first.undecodable
    token, read = first.continue_, _PagesRead(first)
    while token:
        await asyncio.sleep(0)  # decoding a page takes milliseconds: yield to other tasks
        page = codec.page(await source.list(request.next_page(token)), known)
        read.add(page)
        objects.extend(page.objects)
        undecodable += page.undecodable
        token = page.continue_
    return Listed(objects, undecodable, first.revision, paginated=True)


class _PagesRead(Generic[T]):
    """The contents of earlier pages. A server whose pages repeat would be asked for ever."""

    def __init__(self, first: Page[T]) -> None:
        self._tokens: set[str] = set()
        self._keys: set[str] = set()
        self.add(first)

    def add(self, page: Page[T]) -> None:
        """Add a page.

        Raises:
            Malformed: it leads to a page that was read, holds only what others held, or is one
                too many.
        """
        keys = {key_of(obj) for obj in page.objects}
        keys |= {odd.key for odd in page.undecodable if odd.key}
        if page.continue_ in self._tokens:
            raise Malformed("a continue token came twice")
        if keys and keys <= self._keys:
            raise Malformed("a page has only objects of earlier pages")
        if len(self._tokens) >= _MOST_PAGES:
            raise Malformed(f"a list of more than {_MOST_PAGES} pages")
        self._tokens.add(page.continue_)
        self._keys |= keys
