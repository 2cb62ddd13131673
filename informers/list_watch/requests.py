"""Query parameters of lists and watches: revisions, pages and bookmarks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from informers.list_watch.states import Streaming

if TYPE_CHECKING:
    from informers.list_watch.settings import ReflectorSettings
    from informers.list_watch.states import Listing, ReflectorContext, Watching

_PAGE_SIZE = 500
_ANY = "0"
"""Any revision in the server's cache; never reads etcd."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListRequest:
    """One list, before it is split into pages.

    Attributes:
        revision: empty for a quorum read, `"0"` for anything cached, else "not older than".
        match: `resourceVersionMatch`, empty for the server's default.
        limit: objects a page, 0 for all at once.
    """

    revision: str = ""
    match: str = ""
    limit: int = 0

    def first_page(self) -> dict[str, str]:
        """Return the parameters of the first page."""
        return _present(
            resourceVersion=self.revision,
            resourceVersionMatch=self.match,
            limit=str(self.limit or ""),
        )

    def next_page(self, token: str) -> dict[str, str]:
        """Return the parameters of a later page: the token implies revision and match (INF-5)."""
        return {"continue": token, "limit": str(self.limit)}


def list_request(state: Listing, held: str, settings: ReflectorSettings) -> ListRequest:
    """Return the list request for a store at revision `held` (INF-1, INF-4)."""
    revision = "" if state.context.at_quorum else held or _ANY
    return ListRequest(revision=revision, limit=_page_size(revision, state.context, settings))


def watch_query(state: Streaming | Watching, held: str, timeout: int) -> dict[str, str]:
    """Return the query of a watch for a store at revision `held`.

    A streaming list requests initial events; a resumed watch must not (INF-11, INF-15).
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


def _page_size(revision: str, context: ReflectorContext, settings: ReflectorSettings) -> int:
    if settings.page_size is not None:
        return settings.page_size
    if context.paginates or revision in {"", _ANY}:
        return _PAGE_SIZE
    return 0  # a limit would bypass the server's cache and hit etcd


def _present(**parameters: str) -> dict[str, str]:
    return {name: value for name, value in parameters.items() if value}
