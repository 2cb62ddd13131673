"""The net effect of a dry run, as data: `-o json` prints it, `plan` puts it into words.

Pods of one group of one owner are counted together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final, Literal, cast

import msgspec

from controller.apimachinery.metadata import has_generated_suffix
from controller.command.planning.dry_run import DryRun, Refusal
from controller.command.planning.snapshot import group_of, name_pattern, owner_uid
from controller.command.planning.upgrades import Rolling, RolloutPlan
from controller.kube.resources import PODS, Resource
from controller.ray.api import labels
from controller.runtime.plan import Delete

# Compares two pieces of plain data leaf by leaf, with readable paths.

_KEYS = ("name", "groupName", "type", "mountPath", "containerPort")
"""Members that identify the entries of a list; the first one that all entries have is used."""


class Difference(msgspec.Struct, frozen=True, omit_defaults=True):
    """One leaf: `old` is None if it is added, `new` if it is removed."""

    path: str
    old: Any = None
    new: Any = None


def differences(old: Any, new: Any, path: str = "") -> Iterator[Difference]:
    """Yield all leaves in which `new` differs from `old`; None counts as absent."""
    if old == new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        left, right = cast("dict[str, Any]", old), cast("dict[str, Any]", new)
        for name in [*left, *(name for name in right if name not in left)]:
            inner = f"{path}.{name}" if path else name
            yield from differences(left.get(name), right.get(name), inner)
    elif isinstance(old, list) and isinstance(new, list):
        yield from _in_lists(cast("list[Any]", old), cast("list[Any]", new), path)
    else:
        yield Difference(path, old, new)


def _in_lists(old: list[Any], new: list[Any], path: str) -> Iterator[Difference]:
    key = next((key for key in _KEYS if _identifies(old, key) and _identifies(new, key)), None)
    if key is None:
        yield Difference(path, old, new)
        return
    left: dict[Any, Any] = {entry[key]: entry for entry in old}
    right: dict[Any, Any] = {entry[key]: entry for entry in new}
    for name in [*left, *(name for name in right if name not in left)]:
        yield from differences(left.get(name), right.get(name), f"{path}[{name}]")


def _identifies(entries: list[Any], key: str) -> bool:
    if not all(isinstance(entry, dict) for entry in entries):
        return False
    mappings = cast("list[Mapping[str, Any]]", entries)
    names = [mapping.get(key) for mapping in mappings]
    return None not in names and len(set(map(str, names))) == len(names)


Action = Literal["create", "change", "replace", "delete"]


class ObjectChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """A change of one object, or of several pods of one group alike.

    Attributes:
        action: `replace` is a deletion followed by a creation in the same place.
        names: names of existing objects; empty if the objects are created.
        new: name of what is created, with `*` for what is not known beforehand.
        group: worker group or `headgroup`, for pods.
        why: reason of a deletion.
        under_way: whether an upgrade removes the objects that has begun already.
    """

    action: Action
    kind: str
    names: tuple[str, ...] = ()
    new: str = ""
    group: str = ""
    count: int = 1
    why: str = ""
    differences: tuple[Difference, ...] = ()
    under_way: bool = False


class ObjectPlan(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Everything that applying one manifest would lead to.

    Attributes:
        problem: why the object would be refused; then nothing else happens.
        edits: what the manifest changes in the object itself.
        items: what the operator does about it.
        rollout: of a RayService or a RayClusterFleet, what happens to its clusters, in order.
        rolling: of a RayCluster under RollingUpdate, the steps in which its pods are replaced.
        refusals: which of that the API server would refuse.
        notes: what a user would not expect, or what is not yet reached.
        outlook: what evictions, drained nodes and disuse would do to its pods, where options of it
            say something about that.
    """

    kind: str
    namespace: str
    name: str
    exists: bool = msgspec.field(default=False)
    problem: str = ""
    edits: tuple[Difference, ...] = ()
    items: tuple[ObjectChange, ...] = ()
    rollout: RolloutPlan | None = None
    rolling: Rolling | None = None
    refusals: tuple[Refusal, ...] = ()
    notes: tuple[str, ...] = ()
    outlook: tuple[str, ...] = ()

    def count(self, action: Action) -> int:
        """Return the number of objects that this action happens to."""
        return sum(item.count for item in self.items if item.action == action)

    def begins(self, action: Action) -> bool:
        """Return whether this action happens to an object, and not because of earlier edits."""
        return any(item.action == action and not item.under_way for item in self.items)


Json = dict[str, Any]
Objects = dict[str, Json]

_NOT_WRITTEN: Final = frozenset({"metadata", "status", "apiVersion", "kind"})
_HIDDEN: Final = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        labels.DELETE_AFTER,
        labels.DISRUPTED,
        labels.RUNS_ON,
        labels.SERVE_CONFIG,
    }
)
"""Annotations of which no difference is shown."""


class _Deleted:
    """An object that is gone after a dry run, and why."""

    def __init__(self, obj: Json, why: str, under_way: AbstractSet[str]) -> None:
        self.obj = obj
        self.under_way = obj["metadata"].get("uid") in under_way
        self.why = why or ("the upgrade in progress replaces its cluster" * self.under_way)


def net_changes(
    dry_run: DryRun,
    reconciled: Iterable[Resource[Any]] = (),
    under_way: AbstractSet[str] = frozenset(),
) -> tuple[ObjectChange, ...]:
    """List the changes of a settled dry run, resource by resource.

    Args:
        dry_run: after everything has settled.
        reconciled: primary resources of kinds; other names begin with those of their objects.
        under_way: uids of objects that an upgrade removes that has begun already.
    """
    before, after = dry_run.before, dry_run.snapshot.contents()
    reasons = {
        (str(write.target.resource), write.target.key): _reason(write)
        for write in dry_run.writes
        if isinstance(write, Delete)
    }
    changes: list[ObjectChange] = []
    for resource, old in before.items():
        new = after[resource]
        changes += _edited(resource, old, new)
        gone = [
            _Deleted(old[key], reasons.get((str(resource), key), ""), under_way)
            for key in old
            if key not in new
        ]
        created = [new[key] for key in new if key not in old]
        changes += _deleted_and_created(resource, gone, created)
    rename = name_patterns(dry_run, reconciled)
    return tuple(
        msgspec.structs.replace(change, new=rename(change.new)) if change.new else change
        for change in changes
    )


def edits_of(old: Json | None, new: Json) -> tuple[Difference, ...]:
    """List the differences between two states of an object in the fields that users write."""
    if old is None:
        return ()
    return tuple(differences(_written(old), _written(new)))


def name_patterns(dry_run: DryRun, resources: Iterable[Resource[Any]]) -> Callable[[str], str]:
    """Return a function that puts `*` for suffixes that depend on the moment of creation.

    Objects of these primary resources have such names.
    """
    after = dry_run.snapshot.contents()
    created = (key for each in resources for key in after[each].keys() - dry_run.before[each])
    names = (key.rpartition("/")[2] for key in created)
    generated = sorted(name for name in names if has_generated_suffix(name))

    def rename(name: str) -> str:
        prefix = next((each for each in generated if name.startswith(each)), None)
        return name if prefix is None else name_pattern(prefix) + name.removeprefix(prefix)

    return rename


def _edited(resource: Resource[Any], old: Objects, new: Objects) -> Iterator[ObjectChange]:
    for key, obj in old.items():
        if key in new and new[key] is not obj:
            found = tuple(differences(_written(obj), _written(new[key])))
            if found:
                name: str = obj["metadata"]["name"]
                yield ObjectChange("change", resource.kind, (name,), differences=found)


def _deleted_and_created(
    resource: Resource[Any], deleted: Iterable[_Deleted], created: Iterable[Json]
) -> Iterator[ObjectChange]:
    old: defaultdict[tuple[str, str], list[_Deleted]] = defaultdict(list)
    new: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for each in deleted:
        old[owner_uid(each.obj), _group(resource, each.obj)].append(each)
    for obj in created:
        new[owner_uid(obj), _group(resource, obj)].append(obj["metadata"]["name"])
    for place in [*old, *(place for place in new if place not in old)]:
        yield from _in_group(resource, place[1], old[place], new[place])


def _group(resource: Resource[Any], obj: Json) -> str:
    return group_of(obj) if resource == PODS else ""


def _in_group(
    resource: Resource[Any], group: str, deleted: list[_Deleted], created: list[str]
) -> Iterator[ObjectChange]:
    replaced = min(len(deleted), len(created)) if group else 0
    by_reason: defaultdict[tuple[Action, str, bool], list[str]] = defaultdict(list)
    for position, each in enumerate(deleted):
        action: Action = "replace" if position < replaced else "delete"
        by_reason[action, each.why, each.under_way].append(each.obj["metadata"]["name"])
    for (action, why, under_way), names in by_reason.items():
        yield ObjectChange(
            action,
            resource.kind,
            tuple(names),
            name_pattern(created[0]) if action == "replace" else "",
            group,
            len(names),
            why,
            under_way=under_way,
        )
    fresh = created[replaced:]
    if group and fresh:
        yield ObjectChange("create", resource.kind, (), name_pattern(fresh[0]), group, len(fresh))
    elif not group:
        for name in fresh:
            yield ObjectChange("create", resource.kind, new=name)


def _reason(write: Delete) -> str:
    note = write.on_success.note if write.on_success is not None else ""
    return note.partition(" because ")[2]


def _written(obj: Json) -> Json:
    """Return an object without the fields that the API server sets."""
    meta: Json = obj["metadata"]
    annotations: Json = meta.get("annotations") or {}
    kept: Json = {
        "labels": meta.get("labels") or {},
        "annotations": {key: annotations[key] for key in annotations if key not in _HIDDEN},
        "finalizers": meta.get("finalizers") or [],
    }
    rest = {key: obj[key] for key in obj if key not in _NOT_WRITTEN}
    return {"metadata": kept, **rest}
