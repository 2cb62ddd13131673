"""The schemas that the API server publishes, kept up to date.

A changed definition ends the watches of its objects, so the index of the OpenAPI documents is read
whenever a watch begins. It is small, and its URLs change with the documents; a document is read
only if its URL has changed. Every authenticated client may read both.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import structlog

from controller.apimachinery.published_schemas import by_document, read_schemas
from controller.kube.discovery import openapi_documents
from controller.kube.errors import KubeError
from controller.runtime.reconcile.kind import InstalledSchema

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from controller.apimachinery.object_schema import ObjectSchema
    from controller.kube.client import Client
    from controller.kube.resources import Resource

FIRST_READ_TIMEOUT: Final = 5.0
"""Seconds that the start of the operator waits for the schemas."""

CHECKS: Final = (1.0, 5.0, 30.0)
"""Seconds before each of the readings that follow the beginning of a watch: several watches begin
at once, and an API server publishes a changed definition a moment after it serves it."""

RETRY: Final = 60.0
"""Seconds between two attempts to read what could not be read."""

_log = structlog.stdlib.get_logger("manta.schemas")


class InstalledSchemas:
    """Reads the schemas of some resources, again whenever they may have changed.

    A schema that was read once stays in use while the server gives no response.

    Args:
        client: to read with.
        resources: whose schemas are wanted.
        on_change: called with a resource whose schema, or the error in its place, has changed.
        reread: reads the cached objects again after a change; until then the schema before it
            counts too.

    Attributes:
        found: the results by resource.
    """

    name = "schemas"

    def __init__(
        self,
        client: Client,
        resources: Iterable[Resource[Any]],
        *,
        on_change: Callable[[Resource[Any]], None],
        reread: Callable[[Resource[Any]], Awaitable[None]],
    ) -> None:
        self._client = client
        self._on_change = on_change
        self._reread = reread
        self._due = asyncio.Event()
        self._stopped = False
        self.found = dict.fromkeys(resources, InstalledSchema())
        self._documents = by_document(self.found)
        self._urls = dict.fromkeys(self._documents, "")

    def check_soon(self) -> None:
        """A schema may have changed."""
        self._due.set()

    async def run(self, ready: Callable[[], None]) -> None:
        """Read until stopped; ready after the first attempt."""
        pauses = [RETRY]
        with suppress(TimeoutError):
            async with asyncio.timeout(FIRST_READ_TIMEOUT):
                if await self._read():
                    pauses = []
        self._due.clear()
        ready()
        while not self._stopped:
            if await self._is_due_within(pauses.pop(0) if pauses else None):
                self._due.clear()
                pauses = list(CHECKS)
            elif not await self._read() and not pauses:
                pauses = [RETRY]

    def stop(self) -> None:
        """Stop reading."""
        self._stopped = True
        self._due.set()

    async def _is_due_within(self, seconds: float | None) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._due.wait()
        return self._due.is_set()

    async def _read(self) -> bool:
        """Read what has changed; whether everything that exists could be read."""
        try:
            urls = await openapi_documents(self._client)
        except KubeError as error:
            for resource in self.found:
                self._record_error(resource, str(error))
            return False
        results = [await self._read_one(each, urls.get(each, "")) for each in self._documents]
        return all(results)

    async def _read_one(self, document: str, url: str) -> bool:
        """Read a document if its URL has changed, once for all resources in it."""
        if url == self._urls[document]:
            return True
        resources = self._documents[document]
        try:
            schemas = await read_schemas(self._client, resources, url)
        except KubeError as error:
            for resource in resources:
                self._record_error(resource, str(error))
            return False
        taken = [await self._take(each, schema) for each, schema in schemas.items()]
        if all(taken):
            self._urls[document] = url
        return all(taken)

    async def _take(self, resource: Resource[Any], schema: ObjectSchema | None) -> bool:
        """Take over a schema, once its objects have been read again; whether that was possible."""
        known = self.found[resource]
        before = known.previous or known.schema
        is_new = known.previous is not None or before != schema
        if before is not None and schema is not None and is_new:
            self._record(resource, InstalledSchema(schema, previous=before))
            try:
                async with asyncio.timeout(RETRY):
                    await self._reread(resource)
            except TimeoutError:
                return False
        self._record(resource, InstalledSchema(schema))
        return True

    def _record_error(self, resource: Resource[Any], error: str) -> None:
        if self.found[resource].schema is None:
            self._record(resource, InstalledSchema(error=error))

    def _record(self, resource: Resource[Any], result: InstalledSchema) -> None:
        if self.found[resource] == result:
            return
        self.found[resource] = result
        if result.error:
            _log.warning("schema.unreadable", resource=str(resource), error=result.error)
        self._on_change(resource)
