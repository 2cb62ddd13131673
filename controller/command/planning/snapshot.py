"""A fixed set of objects that kinds can observe and on which writes can be executed.

It replaces caches and API server at once: nothing in it happens by itself.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import msgspec

from controller.apimachinery.conditions import is_true, rfc3339
from controller.apimachinery.custom_object import mapping
from controller.apimachinery.metadata import index_by_owner
from controller.apimachinery.patches import apply_merge_patch, json_patch
from controller.kube.objects import KubeObject, ObjectMeta
from controller.kube.resources import PODS, Resource
from controller.ray.api import labels
from controller.runtime.kind import (
    OWNER_INDEX,
    FailedCreate,
    InstalledSchema,
    Kind,
    LogText,
    ObjectUnreadable,
    Owned,
    Unreadable,
)
from controller.runtime.plan import (
    AnyLookup,
    Create,
    Delete,
    JsonPatch,
    LiveList,
    LogTail,
    Lookup,
    MergePatch,
    Replace,
    Target,
    Write,
)
from controller.runtime.record import Owner, Record
from informers import Codec, Undecodable

T = TypeVar("T", bound=KubeObject)
Json = dict[str, Any]
_Index = dict[str, "Callable[[Any], Sequence[str]]"]


@dataclass(slots=True)
class _DryRecord(Record):
    """A record without writes: the snapshot is complete, and reads no logs and no events.

    `absent` are resources and keys of which a lookup found nothing.
    """

    absent: Container[tuple[str, str]] = ()

    def looked_up_absent(self, resource: Resource[Any], key: str) -> bool:
        """Return whether a lookup found nothing."""
        return (str(resource), key) in self.absent

    def has_listed(self, lookup: LiveList) -> bool:
        """Return True: the snapshot is complete."""
        del lookup
        return True

    def log_tail(self, lookup: LogTail) -> LogText | None:
        """Return no log: a dry run reads none."""
        del lookup
        return LogText(unavailable="a plan reads no logs")

    def failed_create(self, uid: str) -> FailedCreate | None:
        """Return that nothing was refused: a dry run reads no events."""
        del uid
        return FailedCreate(datetime.max.replace(year=9000, tzinfo=UTC))


class Snapshot:
    """Implements `kind.CacheReader` over plain objects of the primary and owned resources of kinds.

    Writes create objects at the time `now`. `changes` counts: what is observed stays the same
    between two of them.
    """

    def __init__(
        self,
        kinds: Sequence[Kind[Any]],
        *,
        now: datetime,
        schemas: Mapping[Resource[Any], InstalledSchema] | None = None,
    ) -> None:
        self._schemas = schemas or {}
        self._now = rfc3339(now)
        self._resources: list[Resource[Any]] = []
        self._raw: dict[str, dict[str, Json]] = {}
        self._views: dict[str, dict[str, KubeObject | Undecodable]] = {}
        self._codecs: dict[str, Codec[Any]] = {}
        self._indexes: dict[str, _Index] = {}
        self._absent: set[tuple[str, str]] = set()
        self._served: set[str] = set()
        self._writes = self.changes = 0
        for kind in kinds:
            for owned in (Owned(kind.primary), *kind.owned):
                self._hold(owned)

    def add(self, resource: Resource[Any], objects: Iterable[Json]) -> None:
        """Add objects as the API server has them, which then serves this resource."""
        self._served.add(str(resource))
        for obj in objects:
            meta = obj["metadata"]
            self._put(resource, _key(meta.get("namespace", ""), meta["name"]), obj)

    def run_pods(self) -> bool:
        """Make all created pods ready; returns whether there were any."""
        pods = self._raw.get(str(PODS), {}).items()
        created = [(n, key, pod) for n, (key, pod) in enumerate(pods) if "status" not in pod]
        for number, key, pod in created:
            self._put(PODS, key, pod | {"status": _running(pod, number, self._now)})
        return bool(created)

    @property
    def clock_jumped_at(self) -> None:
        """A dry run takes no time."""

    @property
    def clock_steady_since(self) -> None:
        """A dry run takes no time."""

    def contents(self) -> dict[Resource[Any], dict[str, Json]]:
        """Return all objects as they are now, by key; later writes do not change the result."""
        return {resource: dict(self._raw[str(resource)]) for resource in self._resources}

    def raw(self, resource: Resource[Any], key: str) -> Json | None:
        """Return the whole object as plain data."""
        return self._raw[str(resource)].get(key)

    def get(self, resource: Resource[T], key: str) -> T | None:
        """Return the object `namespace/name`, or None."""
        found = self._decoded(resource, key)
        if isinstance(found, Undecodable):
            raise ObjectUnreadable(resource.kind, key, found.reason)
        return found  # pyright: ignore[reportReturnType]  made from this resource's view

    def _decoded(self, resource: Resource[Any], key: str) -> KubeObject | Undecodable | None:
        """Return the object as the operator decodes it."""
        name = str(resource)
        views = self._views[name]
        found = views.get(key)
        if found is None and key in self._raw[name]:
            codec = self._codecs.setdefault(name, Codec(resource.view))
            found = views[key] = codec.item(msgspec.json.encode(self._raw[name][key]))
        return found

    def serves(self, resource: Resource[Any]) -> bool:
        """Return whether the API server serves this resource, even if it has no objects."""
        return str(resource) in self._served

    def by_index(self, resource: Resource[T], index: str, value: str) -> list[T]:
        """Return all objects whose index function gives `value`."""
        function = self._indexes[str(resource)][index]
        objects: list[Any] = [self._decoded(resource, key) for key in self._raw[str(resource)]]
        return [o for o in objects if o and not isinstance(o, Undecodable) and value in function(o)]

    def revision(self, resource: Resource[Any], owner_uid: str) -> str:
        """Return a revision that grows with every write, so that names differ."""
        del resource, owner_uid
        return str(self._writes)

    def record(self, owner_uid: str) -> Record:
        """Return the record of a process that has written nothing yet."""
        return _DryRecord(Owner(owner_uid, "", ""), absent=self._absent)

    def unreadable(self, resource: Resource[Any], namespace: str) -> Mapping[str, Unreadable]:
        """Return objects that cannot be decoded, by name."""
        found: dict[str, Unreadable] = {}
        for key in self._raw[str(resource)]:
            where, _, name = key.rpartition("/")
            odd = self._decoded(resource, key) if where == namespace else None
            if isinstance(odd, Undecodable):
                meta = odd.metadata if isinstance(odd.metadata, ObjectMeta) else ObjectMeta()
                found[name] = Unreadable(meta, odd.reason)
        return found

    def installed_schema(self, resource: Resource[Any]) -> InstalledSchema:
        """Return the schema that was given, if there is one."""
        return self._schemas.get(resource, InstalledSchema())

    def is_verified(self, resource: Resource[Any], key: str) -> bool:
        """Return True: objects and schemas are read together."""
        del resource, key
        return True

    def look_up(self, lookup: AnyLookup) -> None:
        """Record the answer of a live read: what the snapshot lacks does not exist."""
        if not isinstance(lookup, Lookup):
            return
        target = lookup.target
        if target.key not in self._raw[str(target.resource)]:
            self._absent.add((str(target.resource), target.key))
            self.changes += 1

    def execute(self, write: Write) -> list[Json]:
        """Execute one write; preconditions hold, because nothing else writes here.

        Returns what was removed: of a deletion the object and all that belong to it.
        """
        target = write.target
        removed: list[Json] = []
        match write:
            case Create():
                self._put(target.resource, target.key, self._created(target, write.body))
            case Delete():
                removed = self._remove(str(target.resource), target.key)
            case MergePatch():
                self._change(target, lambda raw: apply_merge_patch(raw, write.patch))
            case Replace():
                self._change(target, lambda raw: apply_merge_patch(raw, write.merge))
            case JsonPatch():
                operations = [dict(operation) for operation in write.operations]
                self._change(target, lambda raw: json_patch(copy.deepcopy(raw), operations))
        self._writes += 1
        self.changes += 1
        return removed

    def _hold(self, owned: Owned[Any]) -> None:
        name = str(owned.resource)
        if name not in self._raw:
            self._resources.append(owned.resource)
            self._raw[name] = {}
            self._views[name] = {}
            self._indexes[name] = {OWNER_INDEX: index_by_owner}
        self._indexes[name] |= owned.indexes

    def _created(self, target: Target, body: Mapping[str, Any]) -> Json:
        meta: Json = {
            "uid": f"planned-{self._writes}",
            "creationTimestamp": self._now,
            "generation": 1,
            "namespace": target.namespace,
        }
        return {**body, "metadata": {**meta, **body["metadata"], "name": target.name}}

    def _remove(self, resource: str, key: str) -> list[Json]:
        """Remove an object and what it owns, as the garbage collector does."""
        removed = self._raw[resource].pop(key, None)
        self._views[resource].pop(key, None)
        if removed is None:
            return []
        uid = removed["metadata"].get("uid")
        owned = [
            (name, each)
            for name, objects in self._raw.items()
            for each, obj in objects.items()
            if uid and owner_uid(obj) == uid
        ]
        return [removed, *(gone for place in owned for gone in self._remove(*place))]

    def _change(self, target: Target, change: Callable[[Json], Json]) -> None:
        present = self._raw[str(target.resource)].get(target.key)
        if present is not None:
            changed = change(present)
            changed["metadata"] = {**changed["metadata"], "resourceVersion": str(self._writes)}
            self._put(target.resource, target.key, changed)

    def _put(self, resource: Resource[Any], key: str, obj: Json) -> None:
        self.changes += 1
        self._raw[str(resource)][key] = obj
        self._views[str(resource)].pop(key, None)


def owner_uid(obj: Json) -> str:
    """Return the uid of the controller owner, empty without one."""
    references: list[Json] = obj["metadata"].get("ownerReferences") or []
    return next((each["uid"] for each in references if each.get("controller")), "")


def group_of(pod: Json) -> str:
    """Return the group of a pod of Ray, `headgroup` for a head; empty for other pods."""
    return mapping(pod["metadata"].get("labels")).get(labels.GROUP, "")


def name_pattern(name: str) -> str:
    """Return the name with `*` for its suffix, which depends on the moment of the creation."""
    return f"{name.rpartition('-')[0]}-*"


def _key(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


def _running(pod: Json, number: int, now: str) -> Json:
    """Return the status of a pod whose containers run and are ready."""
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": now}
    return {
        "phase": "Running",
        "podIP": f"10.0.{number // 250}.{number % 250 + 1}",
        "conditions": [ready],
        "containerStatuses": [
            {
                "name": container["name"],
                "ready": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": now}},
            }
            for container in pod["spec"]["containers"]
        ],
    }


# The objects that an upgrade in progress removes, whatever is edited.
#
# An operator that takes over continues such an upgrade, as the earlier one would have done.

_ROLES: Final = ("activeServiceStatus", "pendingServiceStatus")


def replaced_objects(service: Json, clusters: Iterable[Json], objects: Iterable[Json]) -> set[str]:
    """Return the uids of clusters that are being replaced, and of all their objects."""
    found = _replaced_clusters(service, clusters)
    owners = {each["metadata"].get("uid", ""): owner_uid(each) for each in objects}
    while more := {uid for uid, owner in owners.items() if owner in found} - found:
        found |= more
    return found


def _replaced_clusters(service: Json, clusters: Iterable[Json]) -> set[str]:
    """Return the uids of clusters that the status no longer names or that are being replaced.

    Empty if the active cluster is gone: then it is unknown which cluster serves.
    """
    status = mapping(service.get("status"))
    active, pending = (mapping(status.get(role)).get("rayClusterName", "") for role in _ROLES)
    own = {
        each["metadata"]["name"]: each["metadata"]["uid"]
        for each in clusters
        if owner_uid(each) == service["metadata"]["uid"]
    }
    if active not in own:
        return set()
    names = own.keys() - {active, pending}
    if pending in own:
        back = is_true(status.get("conditions") or (), "RollbackInProgress")
        names |= {pending if back else active}
    return {own[name] for name in names}
