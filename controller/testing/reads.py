"""A cache made of plain values, for any kind.

What can be read follows from what the kind declares: its primary resource, `kind.owned`, their
indexes, and whether the API server may lack them. A kind that reads what it does not watch fails
here as it would in an operator.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from controller.kube.objects import KubeObject
from controller.kube.resources import PODS, Resource
from controller.runtime.kind import (
    CreateError,
    FailedCreate,
    InstalledSchema,
    Kind,
    LogText,
    ObjectUnreadable,
    Unreadable,
)
from controller.runtime.overlay import NotCached
from controller.runtime.plan import LiveList, LogTail
from controller.runtime.record import Owner, Record
from controller.runtime.watches import ResourceWatch, merge_watches


@dataclass
class FakeReads:
    """Implements `kind.CacheReader`; everything about the expectations can be set.

    Attributes:
        kind: what it declares to watch can be read.
        objects: by the plural of their resource and their key.
        served: optional resources that the API server has, the primary one among them; `add` adds
            to them.
        newest: the newest revision observed.
        pending: scopes with a write of unknown outcome.
        taken: names of others' objects, as `Kind/namespace/name`.
        absent: keys under which a lookup has found nothing.
        refused: the last errors of creates, by `Kind/namespace/name`.
        said: sentences about objects that differ from what was written.
        odd: objects that cannot be decoded, by resource and name.
        listed: whether every live list has succeeded.
        logs: tails of logs by label selector, or by pod.
        unread_logs: whether those of pods are still to be read, instead of unavailable.
        failed_creates: what the events of objects say, by uid.
        begun: created members of each incomplete replica.
        history: what the last plan remembered.
        made: pods that were created since.
        schemas: published schemas.
        unverified: edited objects whose schema was not read since, as `Kind/namespace/name`.
        clock_jumped_at: when the clock has jumped last.
        clock_steady_since: since when it has not jumped.
    """

    kind: Kind[Any]
    objects: dict[tuple[str, str], KubeObject] = field(
        default_factory=dict[tuple[str, str], KubeObject]
    )
    served: set[Resource[Any]] = field(default_factory=set[Resource[Any]])
    newest: str = "100"
    pending: frozenset[str] = frozenset()
    taken: set[str] = field(default_factory=set[str])
    absent: set[str] = field(default_factory=set[str])
    refused: dict[str, CreateError] = field(default_factory=dict[str, CreateError])
    said: tuple[str, ...] = ()
    odd: dict[Resource[Any], dict[str, Unreadable]] = field(
        default_factory=dict[Resource[Any], dict[str, Unreadable]]
    )
    listed: bool = False
    logs: dict[str, LogText] = field(default_factory=dict[str, LogText])
    unread_logs: bool = False
    failed_creates: dict[str, FailedCreate] = field(default_factory=dict[str, FailedCreate])
    begun: dict[str, int] = field(default_factory=dict[str, int])
    history: Any = None
    made: tuple[KubeObject, ...] = ()
    schemas: dict[Any, InstalledSchema] = field(default_factory=dict[Any, InstalledSchema])
    unverified: frozenset[str] = frozenset()
    clock_jumped_at: datetime | None = None
    clock_steady_since: datetime | None = None

    def __post_init__(self) -> None:  # noqa: D105
        self._watches = merge_watches([self.kind])
        self.served = {*self.served, self.kind.primary}

    def add(self, resource: Resource[Any], *objects: KubeObject) -> FakeReads:
        """Hold these objects too; the API server then has their resource."""
        self.served.add(resource)
        for obj in objects:
            self.objects[resource.plural, obj.metadata.key] = obj
        return self

    def get(self, resource: Resource[Any], key: str) -> Any:
        self._watched(resource)
        found = self.objects.get((resource.plural, key))
        odd = self.odd.get(resource, {}).get(key.rpartition("/")[2])
        if found is None and odd is not None:
            raise ObjectUnreadable(resource.kind, key, odd.reason)
        return found

    def serves(self, resource: Resource[Any]) -> bool:
        return resource in self.served or not self._watches[resource].optional

    def by_index(self, resource: Resource[Any], index: str, value: str) -> list[Any]:
        function = self._watched(resource).indexes[index]
        found = (obj for (plural, _), obj in self.objects.items() if plural == resource.plural)
        return [obj for obj in found if value in function(obj)]

    def revision(self, resource: Resource[Any], owner_uid: str) -> str:
        return self.newest

    def record(self, owner_uid: str) -> Record:
        return _FakeRecord(self, owner_uid)

    def installed_schema(self, resource: Resource[Any]) -> InstalledSchema:
        return self.schemas.get(resource, InstalledSchema())

    def is_verified(self, resource: Resource[Any], key: str) -> bool:
        return f"{resource.kind}/{key}" not in self.unverified

    def unreadable(self, resource: Resource[Any], namespace: str) -> dict[str, Unreadable]:
        return self.odd.get(resource, {})

    def _watched(self, resource: Resource[Any]) -> ResourceWatch:
        """What the kind watches of this resource.

        Raises:
            NotCached: nothing, or the API server lacks it.
        """
        watch = self._watches.get(resource)
        if watch is None or not self.serves(resource):
            raise NotCached(f"{resource} are not watched by {self.kind.name}")
        return watch


class _FakeRecord(Record):
    """The record that `FakeReads` describes."""

    def __init__(self, reads: FakeReads, owner_uid: str) -> None:
        super().__init__(
            Owner(owner_uid, "", ""),
            failed_creates=reads.failed_creates,
            replicas=reads.begun,
            memory=reads.history,
            made={PODS: list(reads.made)},
        )
        self._reads = reads

    @property
    def pending_scopes(self) -> frozenset[str]:
        return self._reads.pending

    @property
    def consistency_warnings(self) -> tuple[str, ...]:
        return self._reads.said

    def has_name_conflict(self, resource: Resource[Any], key: str) -> bool:
        return f"{resource.kind}/{key}" in self._reads.taken

    def name_conflicts(self, resource: Resource[Any]) -> frozenset[str]:
        prefix = f"{resource.kind}/default/"
        taken = (each for each in self._reads.taken if each.startswith(prefix))
        return frozenset(each.removeprefix(prefix) for each in taken)

    def looked_up_absent(self, resource: Resource[Any], key: str) -> bool:
        return key in self._reads.absent

    def create_error(self, resource: Resource[Any], key: str) -> CreateError | None:
        return self._reads.refused.get(f"{resource.kind}/{key}")

    def has_listed(self, lookup: LiveList) -> bool:
        return self._reads.listed

    def log_tail(self, lookup: LogTail) -> LogText | None:
        if lookup.pod:
            unread = LogText(unavailable="this test has no such log")
            return self._reads.logs.get(lookup.pod, None if self._reads.unread_logs else unread)
        return self._reads.logs.get(lookup.label_selector)
