"""The schemas that the API server publishes, kept up to date.

A changed definition ends the watches of its objects, so the index of the OpenAPI documents is read
whenever a watch begins. It is small, and its URLs change with the documents; a document is read
only if its URL has changed. Every authenticated client may read both.

A schema is current if it was read since the objects' watch began. Objects of a watch that ended
before are read again: their definition may have been another one.

For a moment after a definition has changed, the watches that are open still bring edits that it has
read. So the index is read after an edit too, and until then the edited object is unverified.
"""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import structlog
from msgspec.structs import replace

from controller.apimachinery.object_schema import ObjectSchema, by_document, read_schemas
from controller.kube.client import Client
from controller.kube.errors import Forbidden, KubeError, NotFound, PathNotFound
from controller.kube.resources import Resource
from controller.kube.source import openapi_documents
from controller.runtime.kind import InstalledSchema

FIRST_READ_TIMEOUT: Final = 5.0
"""Seconds that the start of the operator waits for the schemas."""

CHECKS: Final = (1.0, 5.0, 30.0)
"""Seconds before each of the readings that follow the beginning of a watch: several watches begin
at once, and an API server publishes a changed definition a moment after it serves it."""

PUBLICATION: Final = 0.9
"""Seconds that a watch must have lasted for a reading to count for it: the first check does."""

RETRY: Final = 60.0
"""Seconds between two attempts to read what could not be read."""

SPACING: Final = 0.5
"""Minimum seconds between two readings caused by edits."""

_REFUSED: Final = (Forbidden, NotFound, PathNotFound)
"""Errors that do not go away with time."""

_log = structlog.stdlib.get_logger("manta.schemas")


@dataclass(slots=True)
class _Unverified:
    """Watches of one cache that have begun since the schema was read."""

    watches: int
    latest: float


class InstalledSchemas:
    """Reads the schemas of some resources, again whenever they may have changed.

    A schema that was read once stays in use while the server gives no response.

    Args:
        on_change: called with a resource whose schema, or the error in its place, has changed.
        on_verified: called with a resource and the keys of its edited objects whose schema was
            read, and of those for which it could not be read.
        reread: reads the cached objects again after a change; until then the schema before it
            counts too.

    Attributes:
        unverified: keys of edited objects whose schema was not read since, by resource, with the
            times of the edits.
    """

    name = "schemas"

    def __init__(
        self,
        client: Client,
        resources: Iterable[Resource[Any]],
        *,
        on_change: Callable[[Resource[Any]], None],
        on_verified: Callable[[Resource[Any], list[str]], None] = lambda _resource, _keys: None,
        reread: Callable[[Resource[Any]], Awaitable[None]],
    ) -> None:
        self._client = client
        self._on_change = on_change
        self._on_verified = on_verified
        self._reread = reread
        self._due = asyncio.Event()
        self._is_watch_new = False
        self._stopped = False
        self._unverified: defaultdict[Resource[Any], dict[str, _Unverified]] = defaultdict(dict)
        self.found = dict.fromkeys(resources, InstalledSchema())
        self.unverified: dict[Resource[Any], dict[str, float]] = {each: {} for each in self.found}
        self._documents = by_document(self.found)
        self._urls = dict.fromkeys(self._documents, "")

    def watch_begins(self, resource: Resource[Any], namespace: str = "") -> None:
        """Record the beginning of a watch: the definition of its objects may have changed."""
        before = self._unverified[resource].get(namespace)
        watches = 1 if before is None else before.watches + 1
        self._unverified[resource][namespace] = _Unverified(watches, _now())
        self._record(resource, replace(self.found[resource], is_current=False))
        self._is_watch_new = True
        self._due.set()

    def edited(self, resource: Resource[Any], key: str) -> None:
        """Record an object's new generation, which another definition may have read."""
        self.unverified[resource][key] = _now()
        self._due.set()

    async def run(self, ready: Callable[[], None]) -> None:
        """Read until stopped; ready after the first attempt."""
        is_read = False
        with suppress(TimeoutError):
            async with asyncio.timeout(FIRST_READ_TIMEOUT):
                is_read = await self._read(at_start=True)
        checks = [] if is_read else _checks()
        is_retried = True
        if not any(self._unverified.values()):
            self._is_watch_new = False
            self._due.clear()
        ready()
        while not self._stopped:
            if await self._is_due_before(checks[0] if checks else None):
                checks = self._next_checks(checks)
                is_retried = is_retried and not any(self.unverified.values())
            elif not await self._read() and not checks[1:]:
                checks = [_now() + RETRY] if is_retried else _checks()[1:]
                is_retried = True
            else:
                checks = checks[1:]

    def _next_checks(self, checks: list[float]) -> list[float]:
        """Return the times of the next reads after a watch has begun or an object was edited."""
        self._due.clear()
        now = _now()
        if self._is_watch_new:
            self._is_watch_new = False
            return [*(each for each in checks[:1] if each < now + CHECKS[0]), *_checks()]
        early = [each for each in checks if each < now + PUBLICATION]
        late = [each for each in checks if each >= now + PUBLICATION]
        if late and late[0] <= now + CHECKS[0] + SPACING:
            return checks
        spaced = (each + SPACING for each in early[-1:])
        return [*early, max([now + CHECKS[0], *spaced]), *late]

    def stop(self) -> None:
        """Stop reading."""
        self._stopped = True
        self._due.set()

    async def _is_due_before(self, time: float | None) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout_at(time):
                await self._due.wait()
        return self._due.is_set()

    async def _read(self, *, at_start: bool = False) -> bool:
        """Read what has changed; return whether everything that exists could be read."""
        verifies = _now() if at_start else _now() - PUBLICATION
        try:
            urls = await openapi_documents(self._client)
        except KubeError as error:
            for resource in self.found:
                self._record_error(resource, error)
            return False
        results = [
            await self._read_one(each, urls.get(each, ""), verifies) for each in self._documents
        ]
        return all(results)

    async def _read_one(self, document: str, url: str, verifies: float) -> bool:
        """Read a document if its URL has changed, once for all resources in it."""
        resources = self._documents[document]
        if url != self._urls[document]:
            try:
                schemas = await read_schemas(self._client, resources, url)
            except KubeError as error:
                for resource in resources:
                    self._record_error(resource, error)
                return False
            taken = [await self._take(each, schema) for each, schema in schemas.items()]
            if not all(taken):
                return False
            self._urls[document] = url
        verified = [await self._verify(each, verifies) for each in resources]
        return all(verified)

    async def _verify(self, resource: Resource[Any], before: float) -> bool:
        """Count the schema for watches that began earlier; return whether that was possible."""
        unverified = self._unverified[resource]
        due = {name: each for name, each in unverified.items() if each.latest <= before}
        if any(each.watches > 1 for each in due.values()):
            return await self._read_again(resource)  # the next check verifies what was read
        for namespace in due:
            del unverified[namespace]
        found = self.found[resource]
        self._record(resource, replace(found, error="", is_current=not unverified))
        self._verify_edits(resource, before)
        return True

    def _verify_edits(self, resource: Resource[Any], before: float = math.inf) -> None:
        """Count the schema for objects that were edited earlier."""
        edits = self.unverified[resource]
        verified = [key for key, time in edits.items() if time <= before]
        for key in verified:
            del edits[key]
        if verified:
            self._on_verified(resource, verified)

    async def _read_again(self, resource: Resource[Any]) -> bool:
        """Read the cached objects again; return whether that was possible in time."""
        unverified = self._unverified[resource]
        before = {namespace: each.watches for namespace, each in unverified.items()}
        try:
            async with asyncio.timeout(RETRY):
                await self._reread(resource)
        except TimeoutError:
            return False
        for namespace, each in unverified.items():
            begun = each.watches - before.get(namespace, 0)
            unverified[namespace] = _Unverified(begun, _now())
        self._is_watch_new = True
        self._due.set()
        return True

    async def _take(self, resource: Resource[Any], schema: ObjectSchema | None) -> bool:
        """Adopt a schema after its objects were read again; return whether that was possible."""
        known = self.found[resource]
        before = known.previous or known.schema
        is_new = known.previous is not None or before != schema
        if before is not None and schema is not None and is_new:
            self._record(resource, InstalledSchema(schema, previous=before, is_current=False))
            if not await self._read_again(resource):
                return False
        is_current = not self._unverified[resource]
        self._record(resource, InstalledSchema(schema, is_current=is_current))
        return True

    def _record_error(self, resource: Resource[Any], error: KubeError) -> None:
        if isinstance(error, _REFUSED):
            self._unverified[resource].clear()
            self._verify_edits(resource)
        found, is_current = self.found[resource], not self._unverified[resource]
        edits = list(self.unverified[resource])
        if found.schema is None or not is_current or edits:
            self._record(resource, replace(found, error=str(error), is_current=is_current))
        else:
            self._record(resource, replace(found, is_current=True))
        if edits and found.error != self.found[resource].error:
            self._on_verified(resource, edits)

    def _record(self, resource: Resource[Any], result: InstalledSchema) -> None:
        before = self.found[resource]
        if before == result:
            return
        self.found[resource] = result
        if result.error and result.error != before.error:
            _log.warning("schema.unreadable", resource=str(resource), error=result.error)
        if _known(before) != _known(result):
            self._on_change(resource)


def _known(found: InstalledSchema) -> tuple[Any, ...]:
    """Return the part of a result that concerns every object."""
    return found.schema, found.previous, found.schema is None and found.error


def _checks() -> list[float]:
    """Return the times of the reads after a watch that begins now."""
    return [_now() + sum(CHECKS[: number + 1]) for number in range(len(CHECKS))]


def _now() -> float:
    return asyncio.get_running_loop().time()
