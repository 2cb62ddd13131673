"""The verbs that read: get, list and watch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.devcluster.apiserver.messages import ApiResponse, bytes_response
from controller.devcluster.apiserver.options.list_options import ListOptions
from controller.devcluster.apiserver.options.query import revision
from controller.devcluster.apiserver.protocol.negotiation import JSON
from controller.devcluster.apiserver.protocol.status import (
    ApiError,
    not_found,
    too_large_resource_version,
)
from controller.devcluster.apiserver.storage.lists import list_page
from controller.devcluster.apiserver.storage.watch import Watch

if TYPE_CHECKING:
    import random

    from controller.devcluster.apiserver.requests.resource_call import ResourceCall
    from controller.devcluster.apiserver.storage.store import ObjectStore
    from controller.devcluster.apiserver.storage.watch import Clock

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
