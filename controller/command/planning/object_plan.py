"""The changes of a manifest, as data: `-o json` prints them, `text` puts them into words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    from controller.command.planning.differences import Difference
    from controller.command.planning.upgrades.rolling import Rolling
    from controller.command.planning.upgrades.rollout import RolloutPlan

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

    def count(self, action: Action) -> int:
        """Return the number of objects that this action happens to."""
        return sum(item.count for item in self.items if item.action == action)

    def begins(self, action: Action) -> bool:
        """Return whether this action happens to an object, and not because of earlier edits."""
        return any(item.action == action and not item.under_way for item in self.items)
