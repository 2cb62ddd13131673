"""Compares a streamed list with a paged list at the same revision (INF-17)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from informers.errors import InconsistentState
from informers.list_watch.pager import read_list
from informers.list_watch.requests import ListRequest
from informers.objects import T, key_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from informers.decoding.codec import Codec
    from informers.events import Replaced
    from informers.source import Source

_PAGE_SIZE = 500


async def check_consistency(source: Source, codec: Codec[T], streamed: Replaced[T]) -> None:
    """List at the exact streamed revision and compare keys and revisions.

    Raises:
        InconsistentState: they differ. The message names the first few objects.
        SourceError: the list failed.
    """
    request = ListRequest(revision=streamed.revision, match="Exact", limit=_PAGE_SIZE)
    listed = await read_list(source, codec, request)
    difference = _identities(listed.objects) ^ _identities(streamed.objects)
    if difference:
        first = ", ".join(f"{key}@{revision}" for key, revision in sorted(difference)[:5])
        raise InconsistentState(
            f"{source.description} at {streamed.revision}: {len(difference)} differ: {first}"
        )


def _identities(objects: Iterable[T]) -> set[tuple[str, str]]:
    return {(key_of(obj), obj.metadata.resource_version) for obj in objects}
