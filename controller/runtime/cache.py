"""One informer: what is known of it, why it is incomplete, and how it is confirmed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import structlog
from msgspec import Struct

from controller.kube.client import PAGE_SIZE, Client
from controller.kube.objects import KubeObject, ObjectList
from controller.kube.resources import INSTALL_CRDS, Resource
from controller.kube.source import translate_errors
from controller.runtime.debug import InformerEntry, cause
from controller.runtime.kind import SyncTimeout
from informers import ConnectionRefused, Failed, SharedInformer, SourceError, Undecodable, is_older

# Confirms a cache against a quorum read before anything is written (EXP-27).
#
# A cache that was filled from an API server's own cache, or under an earlier leader, may be older
# than the last write of the previous leader. A store that was filled by a quorum read is not
# compared with another one if that read began when this process already led. For any other a list
# returns the current revision. If that list fits into one page, contents are compared at once. A
# large store that is busy reaches the revision with its next event; a quiet one would wait for a
# bookmark for up to a minute, so after a moment its contents are compared too. A store that equals
# that list advances to its revision, because the older events that its watch has yet to send would
# replay objects that have come and gone. Only metadata is read, so that an object that does not fit
# its type does not prevent the start.

REVISION_TIMEOUT = 0.25
"""Seconds to wait for a large store to reach the revision before contents are compared."""


class CacheScope(Struct, frozen=True):
    """The objects that an informer watches."""

    resource: Resource[Any]
    namespace: str = ""
    label_selector: str = ""

    @property
    def name(self) -> str:
        """Name for metrics: `pods`, or `pods/default` for one namespace."""
        return f"{self.resource}/{self.namespace}" if self.namespace else str(self.resource)

    def __str__(self) -> str:
        """Return `pods/default (ray.io/cluster)`."""
        return f"{self.name} ({self.label_selector})" if self.label_selector else self.name


class CacheBarrier:
    """Waits until one informer's store is as new as a quorum read that began late enough.

    Args:
        informer: must have synced.
    """

    def __init__(
        self, client: Client, selection: CacheScope, informer: SharedInformer[Any]
    ) -> None:
        self._client = client
        self._selection = selection
        self._informer = informer
        self._advanced = asyncio.Event()
        informer.on_change(lambda _changes, _revision: self._advanced.set())

    async def wait(self, since: float) -> None:
        """Return when the store shows everything that was written before that time.

        Args:
            since: time on the informer's clock, not later than now; minus infinity for always.

        Raises:
            KubeError: the quorum read failed.
        """
        read = self._informer.quorum_read
        if read is not None and read > since:
            await self._list(limit=1)  # live reads need the right to list, not only to watch
            return
        page = await self._list()
        if not page.continue_:
            await self._wait_for_contents(_revisions(page), page.resource_version)
            return
        try:
            async with asyncio.timeout(REVISION_TIMEOUT):
                await self._wait_for_revision(page.resource_version)
        except TimeoutError:
            await self._wait_for_contents(*await self._snapshot())

    async def _wait_for_revision(self, revision: str) -> None:
        while is_older(self._informer.resource_version, revision):
            await self._wait_for_advance()

    async def _wait_for_contents(self, wanted: dict[str, str], revision: str) -> None:
        """Wait until the store is as new as a quorum list, by revision or by contents."""
        while is_older(self._informer.resource_version, revision):
            if self._shows(wanted):
                self._informer.advance(revision)
            else:
                await self._wait_for_advance()

    def _shows(self, wanted: dict[str, str]) -> bool:
        """Return whether the store holds exactly the listed objects in their listed state."""
        objects = self._informer.lister.list()
        held = {each.metadata.key: each.metadata.resource_version for each in objects}
        for key, odd in self._informer.quarantined.items():
            if key:
                held[key] = odd.revision or wanted.get(key, "")
        return held == wanted

    async def _snapshot(self) -> tuple[dict[str, str], str]:
        found: dict[str, str] = {}
        continue_ = ""
        while True:
            page = await self._list(continue_)
            found |= _revisions(page)
            continue_ = page.continue_
            if not continue_:
                return found, page.resource_version

    async def _wait_for_advance(self) -> None:
        self._advanced.clear()
        await self._advanced.wait()

    async def _list(self, continue_: str = "", *, limit: int = PAGE_SIZE) -> ObjectList[KubeObject]:
        selection = self._selection
        return await self._client.list_metadata(
            selection.resource,
            selection.namespace,
            label_selector=selection.label_selector,
            limit=limit,
            continue_=continue_,
        )


def _revisions(page: ObjectList[KubeObject]) -> dict[str, str]:
    """Return the revisions of listed objects, by key."""
    return {obj.metadata.key: obj.metadata.resource_version for obj in page.items}


@dataclass(slots=True, eq=False)
class Cache:
    """One informer and what is known of it.

    Attributes:
        last_error: the error of the request that failed last, also if later ones succeeded; None
            until one fails, and again when a confirmation begins.
        reported: keys of objects that cannot be decoded, with the reasons already reported.
    """

    scope: CacheScope
    informer: SharedInformer[Any]
    barrier: CacheBarrier
    last_error: SourceError | None = None
    reported: dict[str, str] = field(default_factory=dict[str, str])
    run: asyncio.Task[None] | None = None

    def note_error(self, error: SourceError) -> None:
        """Record that a request failed; keep the error without its traceback."""
        error.__traceback__ = error.__cause__ = error.__context__ = None
        self.last_error = error

    def newly_quarantined(self) -> list[Undecodable]:
        """Return the objects that can no longer be decoded, each once for each reason."""
        present = self.informer.quarantined
        found = [odd for key, odd in present.items() if self.reported.get(key) != odd.reason]
        self.reported = {key: odd.reason for key, odd in present.items()}
        return found


def entry_of(cache: Cache, now: float) -> InformerEntry:
    """Return what the debug page shows of a cache at `now`, clock time in seconds."""
    seen = cache.informer.statistics()

    def since(moment: float | None) -> float | None:
        return None if moment is None else round(now - moment, 3)

    return InformerEntry(
        resource=str(cache.scope.resource),
        namespace=cache.scope.namespace,
        selector=cache.scope.label_selector,
        objects=seen.objects,
        undecodable=seen.quarantined,
        revision=seen.resource_version,
        state=seen.state,
        connected=seen.connected,
        last_byte=since(seen.last_byte),
        last_event=since(seen.last_event),
        last_list=since(seen.last_list),
        relists=sum(seen.relists.values()),
        cause=cause(seen.last_error),
    )


# Explains why caches are not complete, and what to do about it (CTL-5).
#
# Without it an operator whose caches stay empty would wait silently. One paragraph names the verb,
# the resource, the scope, the server's message and the remedy.

_CONVERSION: Final = "conversion webhook for "


def failing(cache: Cache) -> str:
    """Return one sentence about one cache, for the readiness endpoint."""
    seen = cache.informer.statistics()
    if cache.last_error is None:
        return f"cannot list {seen.description} yet: no answer so far"
    return f"cannot list {seen.description}: {cache.last_error}"


def explain(missing: Sequence[Cache], seconds: float) -> str:
    """Return a paragraph about all of them: what failed, why, and the remedy.

    None is missing if the server did not say which of the optional ones there are to be.
    """
    if not missing:
        return (
            f"Gave up after {seconds:.0f} s because the API server did not say which resources it "
            "has. The lines discovery.failed of the log quote it: check it and the proxies before "
            "it."
        )
    sentences = [f"Gave up after {seconds:.0f} s because caches are not complete."]
    sentences += [_sentence(failing(cache)) for cache in missing[:5]]
    if len(missing) > 5:
        sentences.append(f"The same is true of {len(missing) - 5} more.")
    remedies = dict.fromkeys(_remedy(cache) for cache in missing)
    return " ".join([*sentences, *remedies])


def _sentence(text: str) -> str:
    """Return the text with a capital and a full stop; the server's message stays unchanged."""
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def _remedy(cache: Cache) -> str:
    resource = cache.scope.resource
    namespace = cache.scope.namespace
    match cache.last_error:
        case Failed(status=401):
            return "The API server does not accept the credentials: renew them."
        case Failed(status=403):
            role = f"Role in namespace {namespace}" if namespace else "ClusterRole"
            return (
                f'Grant the verbs "list" and "watch" on {resource.plural} of API group '
                f'"{resource.group}" to the operator\'s service account by a {role}.'
            )
        case Failed(status=404) if resource.group == "ray.io":
            return f"Install the definitions: {INSTALL_CRDS}"
        case Failed(status=404):
            return f"The API server does not serve {resource} in version {resource.version}."
        case ConnectionRefused():
            return "The API server cannot be reached: check the address and the network."
        case _:
            return _remedy_by_message(cache)


def _remedy_by_message(cache: Cache) -> str:
    if _CONVERSION not in str(cache.last_error):
        return "See the log for each attempt."
    return (
        f"The conversion webhook of the definition of {cache.scope.resource} does not answer: "
        "repair it, or remove spec.conversion from the definition."
    )


# Waits until every cache has seen what was there before (EXP-27).

RETRY: Final = 2.0
"""Seconds between two quorum reads of one cache."""

_log = structlog.stdlib.get_logger("manta.caches")


async def confirm(
    caches: Sequence[Cache],
    seconds: float,
    *,
    since: float,
) -> None:
    """Wait until every cache has seen what was there before `since`.

    Raises:
        SyncTimeout: this took longer than `seconds`; the message gives the cause.
    """
    try:
        async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
            for cache in caches:
                group.create_task(_confirm(cache, since))
    except TimeoutError:
        refused = [cache for cache in caches if cache.last_error is not None]
        if refused:
            raise SyncTimeout(explain(refused, seconds)) from None
        raise SyncTimeout(
            f"Gave up after {seconds:.0f} s: the caches did not reach the revision "
            "that the API server had at the start, so acting on them would not be safe."
        ) from None


async def _confirm(cache: Cache, since: float) -> None:
    while True:
        cache.last_error = None
        try:
            with translate_errors():
                return await cache.barrier.wait(since)
        except SourceError as error:
            cache.note_error(error)
            _log.warning("quorum_read.failed", cache=cache.informer.name, error=str(error))
            await asyncio.sleep(RETRY)


# Explains why the caches are incomplete or stale.

STALE = 900.0
"""Seconds without data from the server after which a cache makes the process unready: three times
the shortest duration of a watch."""

OVERDUE = 300.0
"""Seconds after which a write that no cache shows makes the process unready. A write of
unknown outcome says nothing about the caches: a webhook may be down."""


def unready(caches: Sequence[Cache], oldest_unseen: float, now: float) -> str | None:
    """Return a sentence about why the caches are incomplete or stale, else None.

    `oldest_unseen` is for how many seconds they have not shown one of the process's writes, at
    most; `now` is in monotonic seconds.
    """
    missing = [cache for cache in caches if not cache.informer.has_synced]
    if missing:
        return "; ".join(failing(cache) for cache in missing)
    for cache in caches:
        seen = cache.informer.statistics()
        if seen.last_byte is not None and now - seen.last_byte > STALE:
            silence = f"nothing heard for {now - seen.last_byte:.0f} s"
            return f"{seen.description}: {silence} {seen.last_error}".rstrip()
    if oldest_unseen > OVERDUE:
        return f"an own write has not been seen in the caches for {oldest_unseen:.0f} s"
    return None
