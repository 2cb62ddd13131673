"""The changes of a manifest, as data: `-o json` prints them, `text` puts them into words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from controller.command.planning.upgrades import Rolling, RolloutPlan


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
        kind: kind of the objects.
        names: names of existing objects; empty if the objects are created.
        new: name of what is created, with `*` for what is not known beforehand.
        group: worker group or `headgroup`, for pods.
        count: number of objects.
        why: reason of a deletion.
        differences: what changes, for `change`.
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


class Refusal(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A planned write that the API server would refuse.

    Attributes:
        kind: kind of the object.
        name: name of the object, with `*` for what differs between the pods of one group.
        message: the server's words.
        group: worker group or `headgroup`, for pods.
        count: number of objects that are refused alike.
    """

    kind: str
    name: str
    message: str
    group: str = ""
    count: int = 1

    def counted(self, count: int) -> Refusal:
        """Return the same refusal of so many objects."""
        return msgspec.structs.replace(self, count=count)


class ObjectPlan(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Everything that applying one manifest would lead to.

    Attributes:
        kind: kind of the object.
        namespace: namespace of the object.
        name: name of the object.
        exists: whether the object exists already.
        problem: why the object would be refused; then nothing else happens.
        edits: what the manifest changes in the object itself.
        items: what the operator does about it.
        rollout: of a RayService or a RayClusterFleet, what happens to its clusters, in order; None
            if nothing does.
        rolling: of a RayCluster under RollingUpdate, the steps in which its pods are replaced; None
            if none is.
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
