"""What a manifest would change, as data: what `-o json` prints and the text is made from."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from controller.command.planning.differences import Difference, differences
from controller.ray.api import RAYCLUSTERS, labels
from controller.runtime.reconcile.plan import Delete

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from controller.command.planning.rehearsal import Rehearsal
    from controller.kube.resources import Resource

Json = dict[str, Any]
Objects = dict[str, Json]
Action = Literal["create", "change", "replace", "delete"]

_NOT_WRITTEN: Final = frozenset({"metadata", "status", "apiVersion", "kind"})
_NOT_TOLD: Final = frozenset({"kubectl.kubernetes.io/last-applied-configuration", labels.RUNS_ON})


class Item(msgspec.Struct, frozen=True, omit_defaults=True):
    """What happens to one object, or to several pods of one group alike.

    Attributes:
        action: `replace` is a deletion followed by a creation in the same place.
        kind: of the objects.
        names: of objects that exist; empty if they are yet to be made.
        new: name of what is made, `*` standing for what is not known beforehand.
        group: worker group or `headgroup`, for pods.
        count: number of objects.
        why: reason of a deletion.
        differences: what changes, for `change`.
    """

    action: Action
    kind: str
    names: tuple[str, ...] = ()
    new: str = ""
    group: str = ""
    count: int = 1
    why: str = ""
    differences: tuple[Difference, ...] = ()


class ObjectPlan(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Everything that applying one manifest would lead to.

    Attributes:
        kind: of the object.
        namespace: of the object.
        name: of the object.
        exists: whether there is such an object already.
        problem: why it would be refused; then nothing else happens.
        edits: what the manifest changes in the object itself.
        items: what the operator does about it.
        notes: what would be odd, or not yet so.
    """

    kind: str
    namespace: str
    name: str
    exists: bool = msgspec.field(default=False)
    problem: str = ""
    edits: tuple[Difference, ...] = ()
    items: tuple[Item, ...] = ()
    notes: tuple[str, ...] = ()

    def count(self, action: Action) -> int:
        """How many objects that happens to."""
        return sum(item.count for item in self.items if item.action == action)


def items_of(
    before: Mapping[Resource[Any], Objects],
    after: Mapping[Resource[Any], Objects],
    rehearsal: Rehearsal,
) -> tuple[Item, ...]:
    """The net effect of a rehearsal, resource by resource."""
    reasons = {
        (str(write.target.resource), write.target.key): _reason(write)
        for write in rehearsal.writes
        if isinstance(write, Delete)
    }
    items: list[Item] = []
    for resource, old in before.items():
        new = after[resource]
        items += _changes(resource, old, new)
        gone = [(old[key], reasons.get((str(resource), key), "")) for key in old if key not in new]
        made = [new[key] for key in new if key not in old]
        items += _movements(resource, gone, made)
    return tuple(_with_open_names(items, _keys_of_clusters_made(before, after)))


def edits_of(old: Json | None, new: Json) -> tuple[Difference, ...]:
    """What differs between two states of an object in what its users write."""
    if old is None:
        return ()
    return tuple(differences(_written(old), _written(new)))


def _keys_of_clusters_made(
    before: Mapping[Resource[Any], Objects], after: Mapping[Resource[Any], Objects]
) -> list[str]:
    old = before.get(RAYCLUSTERS, {})
    return [key for key in after.get(RAYCLUSTERS, {}) if key not in old]


def _with_open_names(items: Iterable[Item], clusters: Iterable[str]) -> Iterator[Item]:
    """A new cluster is named by the moment of its creation, and its parts after it."""
    names = [key.rpartition("/")[2] for key in clusters]
    for item in items:
        made_for = next((name for name in names if item.new.startswith(name)), None)
        if made_for is None:
            yield item
        else:
            rest = item.new.removeprefix(made_for)
            yield msgspec.structs.replace(item, new=_pattern(made_for) + rest)


def _changes(resource: Resource[Any], old: Objects, new: Objects) -> Iterator[Item]:
    for key, obj in old.items():
        if key in new and new[key] is not obj:
            found = tuple(differences(_written(obj), _written(new[key])))
            if found:
                name: str = obj["metadata"]["name"]
                yield Item("change", resource.kind, (name,), differences=found)


def _movements(
    resource: Resource[Any], gone: Iterable[tuple[Json, str]], made: Iterable[Json]
) -> Iterator[Item]:
    leaving: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    coming: defaultdict[str, list[str]] = defaultdict(list)
    for obj, why in gone:
        leaving[_group(obj)].append((obj["metadata"]["name"], why))
    for obj in made:
        coming[_group(obj)].append(obj["metadata"]["name"])
    for group in [*leaving, *(group for group in coming if group not in leaving)]:
        yield from _in_group(resource, group, leaving[group], coming[group])


def _in_group(
    resource: Resource[Any], group: str, gone: list[tuple[str, str]], made: list[str]
) -> Iterator[Item]:
    replaced = min(len(gone), len(made)) if group else 0
    by_reason: defaultdict[tuple[Action, str], list[str]] = defaultdict(list)
    for position, (name, why) in enumerate(gone):
        by_reason["replace" if position < replaced else "delete", why].append(name)
    for (action, why), names in by_reason.items():
        new = _pattern(made[0]) if action == "replace" else ""
        yield Item(action, resource.kind, tuple(names), new, group, len(names), why)
    fresh = made[replaced:]
    if group and fresh:
        yield Item("create", resource.kind, (), _pattern(fresh[0]), group, len(fresh))
    elif not group:
        for name in fresh:
            yield Item("create", resource.kind, new=name)


def _pattern(name: str) -> str:
    """A pod's name ends in what depends on the moment of its creation."""
    return f"{name.rpartition('-')[0]}-*"


def _group(obj: Json) -> str:
    found: dict[str, str] = obj["metadata"].get("labels") or {}
    return found.get(labels.GROUP, "")


def _reason(write: Delete) -> str:
    note = write.on_success.note if write.on_success is not None else ""
    return note.partition(" because ")[2]


def _written(obj: Json) -> Json:
    """An object without what the API server keeps for itself."""
    meta: Json = obj["metadata"]
    annotations: Json = meta.get("annotations") or {}
    kept: Json = {
        "labels": meta.get("labels") or {},
        "annotations": {key: annotations[key] for key in annotations if key not in _NOT_TOLD},
        "finalizers": meta.get("finalizers") or [],
    }
    rest = {key: obj[key] for key in obj if key not in _NOT_WRITTEN}
    return {"metadata": kept, **rest}
