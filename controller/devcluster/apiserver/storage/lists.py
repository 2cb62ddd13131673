"""LIST: revisions, pages and snapshots."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

import msgspec

from controller.devcluster.apiserver.protocol.status import (
    bad_request,
    expired,
    too_large_resource_version,
)

if TYPE_CHECKING:
    from controller.devcluster.apiserver.jsondata import Json
    from controller.devcluster.apiserver.options.list_options import ListOptions
    from controller.devcluster.apiserver.options.selectors import Selection
    from controller.devcluster.apiserver.storage.store import ObjectStore, Stored, Table

_EXPIRED_CONTINUE = (
    "The provided continue parameter is too old to display a consistent list result. You can "
    "start a new list without the continue parameter, or use the continue token in this response "
    "to retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list."
)


class ContinueToken(msgspec.Struct, frozen=True):
    """The position at which a paged list continues.

    Attributes:
        v: version of the token's format.
        rv: revision of the snapshot; -1 for an inconsistent continuation at the current one.
        start: first key that may follow.
    """

    start: str
    rv: int = -1
    v: str = "meta.k8s.io/v1"

    def __str__(self) -> str:
        """Return the token for clients."""
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip("=")

    @classmethod
    def parse(cls, text: str) -> ContinueToken:
        """Read a token.

        Raises:
            ApiError: 400, this server did not issue it.
        """
        try:
            padded = text + "=" * (-len(text) % 4)
            return msgspec.json.decode(base64.urlsafe_b64decode(padded), type=cls)
        except (binascii.Error, msgspec.DecodeError, ValueError):
            raise bad_request(
                "invalid continue token: continue key is not valid: not one of this server's"
            ) from None


def list_page(
    store: ObjectStore, table: Table, namespace: str, selection: Selection, options: ListOptions
) -> tuple[list[Stored], Json]:
    """Return one page, or the whole list, with its list metadata.

    Raises:
        ApiError: 400 for a bad combination, 410 for a compacted revision, 504 for one in the
            future.
    """
    start, at = _start(store, table, options)
    rows = table.at(at, namespace)
    if start:
        rows = [row for row in rows if row[0] >= start]
    chosen = [row for row in rows if selection.matches(row[1].object)] if selection else rows
    metadata: Json = {"resourceVersion": str(at)}
    limit = 0 if options.revision == 0 else options.limit
    if 0 < limit < len(chosen):
        metadata["continue"] = str(ContinueToken(start=chosen[limit - 1][0] + "\0", rv=at))
        if not selection:
            metadata["remainingItemCount"] = len(chosen) - limit
        chosen = chosen[:limit]
    return [item for _, item in chosen], metadata


def _start(store: ObjectStore, table: Table, options: ListOptions) -> tuple[str, int]:
    if options.continue_token:
        return _continuation(store, table, options)
    asked = options.revision
    if asked is None or asked == 0:
        return "", store.revision
    if asked > store.revision:
        raise too_large_resource_version(asked, store.revision)
    exact = options.match == "Exact" or (not options.match and options.limit)
    if not exact:
        return "", store.revision
    if asked < table.compacted:
        raise expired("The resourceVersion for the provided list is too old.")
    return "", asked


def _continuation(store: ObjectStore, table: Table, options: ListOptions) -> tuple[str, int]:
    if options.revision is not None:
        raise bad_request("specifying resource version is not allowed when using continue")
    token = ContinueToken.parse(options.continue_token)
    if token.rv < 0:
        return token.start, store.revision
    if token.rv < table.compacted:
        raise expired(_EXPIRED_CONTINUE, str(ContinueToken(start=token.start)))
    return token.start, token.rv
