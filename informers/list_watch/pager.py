"""Reads a list page by page, and no page twice.

All pages are collected first, because a store is replaced as a whole. Pages are not prefetched
(INF-8), because the token of the next page is in the page being decoded.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic

from informers.errors import Expired, Malformed
from informers.list_watch.requests import ListRequest
from informers.objects import T, key_of

if TYPE_CHECKING:
    from informers.decoding.codec import Codec
    from informers.events import Page, Undecodable
    from informers.source import Source

_MOST_PAGES: Final = 10_000
"""Maximum pages of one list: five million objects."""


@dataclass(frozen=True, slots=True)
class Listed(Generic[T]):
    """A whole list.

    Attributes:
        objects: in the server's order.
        undecodable: objects that do not fit their type.
        revision: revision of the snapshot of all pages.
        paginated: whether there was more than one page.
    """

    objects: list[T]
    undecodable: tuple[Undecodable, ...]
    revision: str
    paginated: bool


async def read_list(source: Source, codec: Codec[T], request: ListRequest) -> Listed[T]:
    """Read all pages; if the snapshot expires meanwhile, read the whole list at once (INF-6).

    Raises:
        Malformed: pages repeat, so that they might never end.
        SourceError: a page failed. `Expired` is raised for the first page only.
    """
    first = codec.page(await source.list(request.first_page()))
    if not first.continue_:
        return Listed(first.objects, first.undecodable, first.revision, paginated=False)
    try:
        return await _read_rest(source, codec, request, first)
    except Expired:
        whole = ListRequest(revision=request.revision, match=request.match)
    page = codec.page(await source.list(whole.first_page()))
    if page.continue_:
        raise Malformed("a list without a limit came in pages")
    return Listed(page.objects, page.undecodable, page.revision, paginated=True)


async def _read_rest(
    source: Source, codec: Codec[T], request: ListRequest, first: Page[T]
) -> Listed[T]:
    objects, undecodable = first.objects, first.undecodable
    token, read = first.continue_, _PagesRead(first)
    while token:
        await asyncio.sleep(0)  # decoding a page takes milliseconds: yield to other tasks
        page = codec.page(await source.list(request.next_page(token)))
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
