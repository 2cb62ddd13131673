"""The verbs that read: get, list with its revisions, pages and snapshots, and watch."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

import msgspec

from controller.devcluster.apiserver.messages import JSON, ApiResponse, bytes_response
from controller.devcluster.apiserver.options import ListOptions, revision
from controller.devcluster.apiserver.requests.watch import Watch
from controller.devcluster.apiserver.status import (
    ApiError,
    bad_request,
    expired,
    not_found,
    too_large_resource_version,
)

if TYPE_CHECKING:
    import random

    from controller.devcluster.apiserver.objects import Json
    from controller.devcluster.apiserver.requests.resource_call import ResourceCall
    from controller.devcluster.apiserver.requests.watch import Clock
    from controller.devcluster.apiserver.selectors import Selection
    from controller.devcluster.apiserver.store import ObjectStore, Stored, Table


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


MIN_WATCH = 1800.0
"""Minimum seconds that a watch without `timeoutSeconds` lives; at most twice as long."""


class Reads:
    """Answers requests that read.

    Args:
        store: store to read from.
        clock: measures the lives of watches.
        rng: varies the lives of watches.
    """

    def __init__(self, store: ObjectStore, *, clock: Clock, rng: random.Random) -> None:
        self._store = store
        self._clock = clock
        self._rng = rng
        self._stopping = False

    def stop(self) -> None:
        """End all watches."""
        self._stopping = True
        for table in self._store.tables.values():
            table.wake()

    def get(self, call: ResourceCall) -> ApiResponse:
        """Return one object.

        Raises:
            ApiError: there is none, or it has no such representation.
        """
        representation = call.representation()
        try:
            asked = revision(call.request.query)
        except ApiError as error:
            why = error.message.removeprefix("invalid resource version: ")
            raise ApiError(500, "", why) from None
        stored = self._store.table(call.resource.table).items.get(call.key)
        if stored is None:
            raise not_found(call.resource.name, call.where.name)
        if asked and asked > self._store.revision:
            raise too_large_resource_version(asked, self._store.revision)
        return bytes_response(200, representation.one(stored))

    def list(self, call: ResourceCall) -> ApiResponse:
        """Return a page of objects.

        Raises:
            ApiError: the query is unusable.
        """
        representation = call.representation()
        options = ListOptions.parse(call.request.query)
        items, metadata = list_page(
            self._store,
            self._store.table(call.resource.table),
            call.where.namespace,
            call.selection(),
            options,
        )
        return bytes_response(200, representation.many(items, metadata))

    def watch(self, call: ResourceCall) -> ApiResponse:
        """Return a stream of events.

        Raises:
            ApiError: the query is unusable.
        """
        representation = call.representation()
        options = ListOptions.parse(call.request.query)
        watch = Watch(
            store=self._store,
            table=self._store.table(call.resource.table),
            namespace=call.where.namespace,
            selection=call.selection(),
            representation=representation,
            options=options,
            since=options.revision,
            lifetime=float(options.timeout or MIN_WATCH * (1 + self._rng.random())),
            clock=self._clock,
            stopping=lambda: self._stopping,
        )
        return ApiResponse(200, watch.chunks(), {"content-type": JSON})
