"""Query parameters of lists and watches: which revision is asked for, and in how many pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from informers.states import Streaming

if TYPE_CHECKING:
    from informers.settings import ReflectorSettings
    from informers.states import Listing, ReflectorContext, Watching

_PAGE_SIZE = 500
_ANY = "0"
"""Whatever the server has in its cache: never touches etcd."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListRequest:
    """One list, before it is cut into pages.

    Attributes:
        revision: empty for a quorum read, `"0"` for anything cached, else "not older than".
        match: `resourceVersionMatch`, empty for the server's default.
        limit: objects a page, 0 for all at once.
    """

    revision: str = ""
    match: str = ""
    limit: int = 0

    def first_page(self) -> dict[str, str]:
        """Parameters of the first page."""
        return _present(
            resourceVersion=self.revision,
            resourceVersionMatch=self.match,
            limit=str(self.limit or ""),
        )

    def next_page(self, token: str) -> dict[str, str]:
        """Parameters of a later page: the token implies revision and match (INF-5)."""
        return {"continue": token, "limit": str(self.limit)}


def list_request(state: Listing, held: str, settings: ReflectorSettings) -> ListRequest:
    """The list to make when the store is at revision `held` (INF-1, INF-4)."""
    revision = "" if state.context.at_quorum else held or _ANY
    return ListRequest(revision=revision, limit=_page_size(revision, state.context, settings))


def watch_query(state: Streaming | Watching, held: str, timeout: int) -> dict[str, str]:
    """The watch to open when the store is at revision `held`.

    A streaming list asks for initial events; a resumed watch must not (INF-11, INF-15).
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
