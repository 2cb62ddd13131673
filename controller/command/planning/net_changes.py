"""The net effect of a dry run; pods of one group of one owner are counted together."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import msgspec

from controller.apimachinery.names import has_generated_suffix
from controller.command.planning.object_plan import ObjectChange, differences
from controller.command.planning.snapshot import owner_uid
from controller.kube.resources import PODS
from controller.ray.api import labels
from controller.runtime.plan import Delete

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from collections.abc import Set as AbstractSet

    from controller.command.planning.dry_run import DryRun
    from controller.command.planning.object_plan import Action, Difference
    from controller.kube.resources import Resource


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
    """An object that is gone after a dry run.

    Args:
        obj: as it was before.
        why: reason of its deletion; may be empty.
        under_way: see `net_changes`.
    """

    def __init__(self, obj: Json, why: str, under_way: AbstractSet[str]) -> None:
        self.obj = obj
        self.under_way = obj["metadata"].get("uid") in under_way
        self.why = why or ("the upgrade in progress replaces its cluster" * self.under_way)


def net_changes(
    dry_run: DryRun,
    reconciled: Iterable[Resource[Any]] = (),
    under_way: AbstractSet[str] = frozenset(),
) -> tuple[ObjectChange, ...]:
    """List the changes of a dry run, resource by resource.

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

    Args:
        dry_run: after everything has settled.
        resources: primary resources of kinds, whose objects have such names.
    """
    after = dry_run.snapshot.contents()
    created = (key for each in resources for key in after[each].keys() - dry_run.before[each])
    names = (key.rpartition("/")[2] for key in created)
    generated = sorted(name for name in names if has_generated_suffix(name))

    def rename(name: str) -> str:
        prefix = next((each for each in generated if name.startswith(each)), None)
        return name if prefix is None else _pattern(prefix) + name.removeprefix(prefix)

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
            _pattern(created[0]) if action == "replace" else "",
            group,
            len(names),
            why,
            under_way=under_way,
        )
    fresh = created[replaced:]
    if group and fresh:
        yield ObjectChange("create", resource.kind, (), _pattern(fresh[0]), group, len(fresh))
    elif not group:
        for name in fresh:
            yield ObjectChange("create", resource.kind, new=name)


def _pattern(name: str) -> str:
    """Return the name with `*` for its suffix, which depends on the moment of the creation."""
    return f"{name.rpartition('-')[0]}-*"


def _group(resource: Resource[Any], obj: Json) -> str:
    if resource != PODS:
        return ""
    found: dict[str, str] = obj["metadata"].get("labels") or {}
    return found.get(labels.GROUP, "")


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
