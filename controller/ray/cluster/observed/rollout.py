"""The state of a rolling update at one moment, as a value: `decision.py` makes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final

from controller.ray.cluster.observed.pod_to_delete import SURPLUS, DeletionCause, PodToDelete
from controller.ray.rolling import Moves

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from controller.kube.objects import Pod
    from controller.ray.api.fields.upgrade_strategy import RollingUpdate
    from controller.ray.rolling import UnitGroup

OUTDATED: Final = "it was made from an older template and is being replaced"


class Verdict(Enum):
    """The state of a rolling update: the reasons of the condition `Upgrading`."""

    COMPLETE = "Complete"
    NOT_EXPLAINED = "NotExplained"
    HEAD_NEEDS_FAULT_TOLERANCE = "HeadNeedsFaultTolerance"
    PAUSED = "Paused"
    INCOMPATIBLE_VERSIONS = "IncompatibleVersions"
    RAY_DOES_NOT_ANSWER = "RayDoesNotAnswer"
    PROGRESS_DEADLINE_EXCEEDED = "ProgressDeadlineExceeded"
    DRAINING = "Draining"
    ROLLING = "Rolling"


AT_REST: Final = frozenset({
    Verdict.COMPLETE,
    Verdict.NOT_EXPLAINED,
    Verdict.HEAD_NEEDS_FAULT_TOLERANCE,
})  # fmt: skip
"""Nothing is being replaced, and nothing is waited for."""

HELD: Final = AT_REST | {Verdict.PAUSED, Verdict.RAY_DOES_NOT_ANSWER}
"""No pod is touched that is not draining already."""

STUCK: Final = frozenset({
    Verdict.INCOMPATIBLE_VERSIONS,
    Verdict.RAY_DOES_NOT_ANSWER,
    Verdict.PROGRESS_DEADLINE_EXCEEDED,
    Verdict.HEAD_NEEDS_FAULT_TOLERANCE,
})  # fmt: skip
"""A person may have to do something."""


@dataclass(frozen=True, slots=True)
class PodUnits:
    """The units of a group.

    Attributes:
        group: the units as values.
        hosts: pods of a complete unit.
        pods: that each unit consists of.
    """

    group: UnitGroup
    hosts: int
    pods: Mapping[str, tuple[Pod, ...]]


@dataclass(frozen=True, slots=True)
class GroupUpgrade:
    """The upgrade of one group.

    Attributes:
        units: as they are.
        moves: that are due.
        surplus: names of units that the specification has no room for any more.
    """

    units: PodUnits
    moves: Moves = field(default_factory=Moves)
    surplus: tuple[str, ...] = ()

    @property
    def group(self) -> UnitGroup:
        """The units as values."""
        return self.units.group

    @property
    def wanted(self) -> int:
        """The number of units that should exist after the creates, and before any deletion."""
        return len(self.group.units) + self.moves.create

    @property
    def leaving(self) -> tuple[str, ...]:
        """Names of the units that are draining."""
        return tuple(unit.name for unit in self.group.units if unit.is_leaving)

    def pods_of(self, names: Iterable[str]) -> Iterator[Pod]:
        """The pods of these units that are not being deleted."""
        for name in names:
            yield from (p for p in self.units.pods[name] if not p.metadata.terminating)

    def to_delete(self, *, may_shrink: bool) -> Iterator[PodToDelete]:
        """Pods to delete besides those that are named or broken."""
        for pod in self.pods_of(self.moves.delete):
            yield PodToDelete(pod, OUTDATED, DeletionCause.UPGRADED)
        if may_shrink:
            for pod in self.pods_of(self.surplus):
                yield PodToDelete(pod, SURPLUS, DeletionCause.SURPLUS)


@dataclass(frozen=True, slots=True)
class Rollout:
    """A rolling update.

    Attributes:
        settings: that the user chose.
        verdict: how it stands.
        cause: what it waits for, or what is to be done, as clauses; may be empty.
        groups: by name; suspended ones are not among them, and none if there is nothing to do.
        head_is_outdated: whether the head was made from another template.
        replaces_head: whether the head is deleted now.
        seconds_left: until time alone changes something; None if it does not.
        begun: names of the groups whose turn has begun and not ended.
    """

    settings: RollingUpdate
    verdict: Verdict
    cause: str = ""
    groups: Mapping[str, GroupUpgrade] = field(default_factory=dict[str, GroupUpgrade])
    head_is_outdated: bool = False
    replaces_head: bool = False
    seconds_left: float | None = None
    begun: frozenset[str] = frozenset()

    @property
    def is_leaving(self) -> bool:
        """True if any pod is draining."""
        return any(each.leaving for each in self.groups.values())

    @property
    def takes_away(self) -> bool:
        """True if the next moves have pods drained or deleted."""
        return any(each.moves.drain or each.moves.delete for each in self.groups.values())

    @property
    def leaving_pods(self) -> frozenset[str]:
        """Uids of the pods that are draining."""
        return frozenset(
            pod.metadata.uid for each in self.groups.values() for pod in each.pods_of(each.leaving)
        )

    @property
    def spare_pods(self) -> frozenset[str]:
        """Uids of new pods in groups that have as many available ones as they must have."""
        return frozenset(
            pod.metadata.uid
            for each in self.groups.values()
            if each.group.has_enough
            for pod in each.pods_of(u.name for u in each.group.units if u.up_to_date and u.staying)
        )

    def workers_to_delete(self, group: str, *, may_shrink: bool) -> Iterator[PodToDelete]:
        """Pods of the group to delete besides those that are named or broken."""
        if group in self.groups:
            yield from self.groups[group].to_delete(may_shrink=may_shrink)
