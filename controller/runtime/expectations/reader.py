"""The reader that `observe` gets: the caches, overlaid with this process's own writes."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import nsmallest
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

from controller.kube.objects import KubeObject
from controller.runtime.debug import LIMIT, ExpectationEntry, cause, listing
from controller.runtime.expectations.overlay import ObjectReference
from controller.runtime.expectations.owners import keep_newest
from controller.runtime.kind import InstalledSchema, ObjectUnreadable
from controller.runtime.plan import verb_of

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Mapping
    from datetime import datetime

    from controller.kube.resources import Resource
    from controller.runtime.debug import BoundedList
    from controller.runtime.expectations.overlay import Expectation, OverlayIndex
    from controller.runtime.expectations.owners import Owner, OwnerIndex
    from controller.runtime.kind import CreateError, FailedCreate, LogText, Unreadable
    from controller.runtime.plan import LiveList, LogTail


# Remembers the last error of each create, so that planners can give up or name the cause.
#
# An error is kept until a create under that name succeeds or the owner no longer exists.

CAPACITY: Final = 4096
"""Maximum errors to keep. The oldest is discarded first; the next attempt records it again."""


class CreateErrors:
    """The last create error under each name. Every call is O(1)."""

    def __init__(self, owners: OwnerIndex) -> None:
        self._owners = owners
        self._known: dict[ObjectReference, tuple[str, CreateError]] = {}

    def add(self, owner: Owner, reference: ObjectReference, error: CreateError) -> None:
        """Record that the server rejected a create of this object with `error`."""
        keep_newest(self._known, reference, (owner.uid, error), CAPACITY)

    def forget(self, reference: ObjectReference) -> None:
        """Forget the error: a create of this object succeeded."""
        self._known.pop(reference, None)

    def get(self, reference: ObjectReference) -> CreateError | None:
        """Return the last error under this name, None if its owner no longer exists."""
        known = self._known.get(reference)
        if known is None or self._owners.get(known[0]) is None:
            return None
        return known[1]


T = TypeVar("T", bound=KubeObject)


class OverlayReader:
    """Implements `kind.CacheReader` over the overlays.

    An observation costs O(objects read + expectations of the owner).

    Attributes:
        installed_schemas: published schemas by resource.
        unverified: keys of edited objects whose schema was not read since, by resource.
        clock_jumped_at: the time of day after its last jump, None before the first.
        clock_steady_since: the same, or the time at which this process began to lead, if that was
            later; None before it leads.
    """

    def __init__(
        self, overlays: OverlayIndex, owners: OwnerIndex, create_errors: CreateErrors
    ) -> None:
        self._overlays = overlays
        self._owners = owners
        self._create_errors = create_errors
        self.installed_schemas: Mapping[Resource[Any], InstalledSchema] = {}
        self.unverified: Mapping[Resource[Any], Container[str]] = {}
        self.clock_jumped_at: datetime | None = None
        self.clock_steady_since: datetime | None = None

    def get(self, resource: Resource[T], key: str) -> T | None:
        """Return the newest object known under `key`.

        Raises:
            NotCached: no kind watches it.
            ObjectUnreadable: it exists, and the cache could never decode it.
        """
        overlay = self._overlays.get(resource)
        found = overlay.get(key)
        if found is None and (reason := overlay.why_unreadable(key)):
            raise ObjectUnreadable(resource.kind, key, reason)
        return found

    def why_unreadable(self, resource: Resource[Any], key: str) -> str:
        """Return why the newest state of an object cannot be decoded; empty if it can."""
        return self._overlays.get(resource).why_unreadable(key)

    def is_stored(self, resource: Resource[Any], key: str) -> bool:
        """Return whether the cache shows an object under `key`, which may be known to be gone."""
        return self._overlays.get(resource).cache_of(key.rpartition("/")[0]).get(key) is not None

    def serves(self, resource: Resource[Any]) -> bool:
        return self._overlays.get(resource).watched

    def by_index(self, resource: Resource[T], index: str, value: str) -> list[T]:
        """Return all newest objects whose index function gives `value`, in no particular order.

        Raises:
            NotCached: no kind watches it.
            KeyError: there is no such index.
        """
        return self._overlays.get(resource).by_index(index, value)

    def revision(self, resource: Resource[Any], owner_uid: str) -> str:
        state = self._owners.state(owner_uid)
        cache = self._overlays.get(resource).cache_of(state.namespace)
        return state.observe_revision(resource, cache.resource_version)

    def pending_scopes(self, owner_uid: str) -> frozenset[str]:
        return frozenset(
            expectation.scope
            for expectation in self._pending(owner_uid)
            if not expectation.presumed_failed
        )

    def pending_resources(self, owner_uid: str) -> frozenset[Resource[Any]]:
        """Return the resources of the writes in `pending_scopes`."""
        return frozenset(expectation.reference.resource for expectation in self._pending(owner_uid))

    def has_name_conflict(self, resource: Resource[Any], key: str) -> bool:
        expectation = self._overlays.get(resource).expectations.get(key)
        return expectation is not None and expectation.name_conflict

    def name_conflicts(self, resource: Resource[Any], owner_uid: str) -> frozenset[str]:
        return frozenset(
            expectation.reference.name
            for expectation in self._of_owner(owner_uid)
            if expectation.name_conflict and expectation.reference.resource is resource
        )

    def create_error(self, resource: Resource[Any], key: str) -> CreateError | None:
        return self._create_errors.get(ObjectReference(resource, key))

    def looked_up_absent(self, resource: Resource[Any], key: str) -> bool:
        expectation = self._overlays.get(resource).expectations.get(key)
        return expectation is not None and expectation.absent

    def has_listed(self, lookup: LiveList, owner_uid: str) -> bool:
        return lookup in self._owners.state(owner_uid).lists

    def log_tail(self, lookup: LogTail, owner_uid: str) -> LogText | None:
        return self._owners.state(owner_uid).logs.get(lookup)

    def failed_create(self, creator_uid: str, owner_uid: str) -> FailedCreate | None:
        return self._owners.state(owner_uid).failed_creates.get(creator_uid)

    def incomplete_replicas(self, owner_uid: str) -> Mapping[str, int]:
        return dict(self._owners.state(owner_uid).incomplete_replicas)

    def memory(self, owner_uid: str) -> Any:
        return self._owners.state(owner_uid).memory

    def created(self, resource: Resource[T], owner_uid: str) -> tuple[T, ...]:
        return tuple(self._owners.state(owner_uid).created.get(resource, ()))

    def unreadable(self, resource: Resource[Any], namespace: str) -> dict[str, Unreadable]:
        return self._overlays.get(resource).unreadable(namespace)

    def installed_schema(self, resource: Resource[Any]) -> InstalledSchema:
        return self.installed_schemas.get(resource, InstalledSchema())

    def is_verified(self, resource: Resource[Any], key: str) -> bool:
        return key not in self.unverified.get(resource, ())

    def consistency_warnings(self, owner_uid: str) -> tuple[str, ...]:
        sentences: list[str] = []
        for expectation in self._of_owner(owner_uid):
            if expectation.live_only:
                words = f"{expectation.reference} exists but is not in the watched selection"
                if not (expectation.name_conflict or expectation.warning):
                    words += "; put back the labels that the operator gave it, or delete it"
                sentences.append(words)
            if expectation.warning:
                sentences.append(expectation.warning)
        return tuple(sorted(sentences))

    def _of_owner(self, owner_uid: str) -> list[Expectation[Any]]:
        references = self._owners.state(owner_uid).expectations
        found = (self._overlays.get_expectation(reference) for reference in references)
        return [expectation for expectation in found if expectation is not None]

    def _pending(self, owner_uid: str) -> list[Expectation[Any]]:
        return [
            expectation
            for expectation in self._of_owner(owner_uid)
            if expectation.writer == owner_uid
            and (expectation.write is not None or expectation.blocking)
        ]


# Single expectations on the debug page.


def oldest(
    expectations: Collection[Expectation[Any]], owners: OwnerIndex, now: float
) -> BoundedList[ExpectationEntry]:
    """Return the oldest expectations at `now` (clock time), those that await something first."""
    found = nsmallest(LIMIT, expectations, key=lambda each: (not each.pending, _since(each)))
    return listing(found, lambda each: _entry(each, owners, now), total=len(expectations))


def _entry(each: Expectation[Any], owners: OwnerIndex, now: float) -> ExpectationEntry:
    found = (owner for state in owners.find(each.owners) for owner in state.owners.values())
    failure = each.unknown_failure
    return ExpectationEntry(
        object=str(each.reference),
        owners=[f"{owner.controller} {owner.key}" for owner in islice(found, LIMIT)],
        awaited=_awaited(each),
        kept="" if each.pending else cause(_kept(each)),
        age=round(now - _since(each), 3),
        live_reads=each.live_reads,
        cause=cause(f"{failure.reason}: {failure.message}") if failure is not None else "",
    )


def _since(each: Expectation[Any]) -> float:
    if each.unknown_since is not None:
        return each.unknown_since
    return each.pending_since if each.pending else each.changed_at


def _awaited(each: Expectation[Any]) -> str:
    if each.write is not None:
        awaited = "outcome" if each.outcome_unknown else "answer"
        return f"{awaited} of {verb_of(each.write)}"
    if not each.unseen:
        return ""
    event = "deletion" if each.deleted_uid else "write"
    return f"live read after {event}" if each.needs_live_read else f"cache shows {event}"


def _kept(each: Expectation[Any]) -> str:
    if each.warning:
        return f"admission: {each.warning}"
    if each.name_conflict:
        return "name is taken"
    if each.absent:
        return "looked up, not found"
    return "outside of the selection"


# Numbers of all expectations, for metrics and tests.

LIVE_READ: Final = "live_read"
"""Key in `ExpectationStatistics.resolved_by` of expectations that a live read resolved."""


@dataclass(frozen=True, slots=True)
class ExpectationStatistics:
    """Numbers for metrics and tests.

    Attributes:
        pending: those of which the store has yet to show a write.
        unknown: writes of unknown outcome.
        oldest_age: seconds since the oldest pending write.
        oldest_unseen: seconds for which the store has not shown what the server answered, at most.
        need_live_read: expectations that only a live read can resolve.
        corrections: reads in which an expectation replaced stale data of a cache.
        live_reads: live reads so far.
        resolved_by: expectations resolved so far, by what resolved them.
    """

    owners: int
    expectations: int
    pending: int
    unknown: int
    oldest_age: float
    oldest_unseen: float
    need_live_read: int
    corrections: int
    live_reads: int
    resolved_by: Mapping[str, int]


def collect(
    overlays: OverlayIndex, owners: OwnerIndex, resolved_by: Mapping[str, int], now: float
) -> ExpectationStatistics:
    """Return the numbers at `now`, clock time in seconds; O(expectations)."""
    expectations = [each for overlay in overlays.all() for each in overlay.expectations.values()]
    pending = [each for each in expectations if each.pending]
    unseen = [each.unseen_since for each in expectations if each.unseen_since is not None]
    return ExpectationStatistics(
        owners=len(owners.all()),
        expectations=len(expectations),
        pending=len(pending),
        unknown=sum(1 for each in expectations if each.outcome_unknown),
        oldest_age=max((now - each.pending_since for each in pending), default=0.0),
        oldest_unseen=max((now - since for since in unseen), default=0.0),
        need_live_read=sum(1 for each in expectations if each.needs_live_read),
        corrections=sum(overlay.corrections for overlay in overlays.all()),
        live_reads=resolved_by.get(LIVE_READ, 0),
        resolved_by=dict(resolved_by),
    )
