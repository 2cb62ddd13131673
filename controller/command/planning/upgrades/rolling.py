"""The steps of a rolling update: the pods that each replaces, and the peak of resources.

The operator's own plans are recorded; between two steps the pods that were created become ready.
"""

from __future__ import annotations

from datetime import datetime
from statistics import median
from typing import TYPE_CHECKING, Any

import msgspec

from controller.apimachinery.conditions import READY
from controller.apimachinery.custom_object import dig, mapping, without_nulls
from controller.apimachinery.problem import Problem
from controller.command.planning.snapshot import owner_uid
from controller.command.planning.upgrades.usage import Usage, usage_of
from controller.kube.resources import PODS
from controller.ray.api import labels
from controller.ray.api.fields.upgrade_strategy import (
    RayClusterUpgradeStrategy,
    RollingUpdate,
    strategy_in_force,
)
from controller.runtime.plan import Create, Delete, MergePatch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from controller.runtime.plan import Write

Json = dict[str, Any]


class GroupStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """The changes of a step in one group.

    Attributes:
        group: its name; `headgroup` for the head.
        drained: pods that Ray drains before they are deleted.
        deleted: pods that are deleted.
        created: number of pods that are created.
    """

    group: str
    drained: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    created: int = 0


class RollingStep(msgspec.Struct, frozen=True):
    """Everything that is done before the next pods have to be ready.

    Attributes:
        groups: what it does in each group.
        seconds: how long the pods that it creates take to be ready, as the present pods of their
            groups did; None if there are none to measure.
    """

    groups: tuple[GroupStep, ...]
    seconds: float | None = 0.0

    @property
    def shape(self) -> tuple[tuple[str, int, int, int], ...]:
        """The part that is common to steps which differ in names only."""
        return tuple(
            (each.group, len(each.drained), len(each.deleted), each.created) for each in self.groups
        )


class Rolling(msgspec.Struct, frozen=True, rename="camel"):
    """A rolling update.

    Attributes:
        steps: in their order.
        before: what the pods of the cluster ask for now.
        peak: the most that they ask for on the way.
        after: what they ask for in the end.
        seconds: how long new pods take to be ready, all steps together; None if that cannot be
            known. Drains come on top.
        unmeasured: groups without a ready pod to measure.
        drain_timeout_seconds: how long each drain may take.
        drains: how many of the steps begin with drains.
    """

    steps: tuple[RollingStep, ...]
    before: Usage
    peak: Usage
    after: Usage
    seconds: float | None
    unmeasured: tuple[str, ...]
    drain_timeout_seconds: int
    drains: int


def rolling_update(cluster: Json) -> RollingUpdate | None:
    """Return the settings of the cluster's rolling updates; None with any other strategy."""
    given = without_nulls(dig(cluster, "spec", "upgradeStrategy") or {})
    try:
        strategy = msgspec.convert(given, RayClusterUpgradeStrategy)
    except msgspec.ValidationError:
        return None
    found = strategy_in_force(strategy, mapping(dig(cluster, "metadata", "annotations")))
    return None if isinstance(found, Problem) else found.rolling


class RollingRecorder:
    """Follows the writes of a dry run of one RayCluster.

    Args:
        cluster: the RayCluster, as the API server has it.
        settings: settings of its rolling updates.
        pods: Ray pods before the first write.
    """

    def __init__(self, cluster: Json, settings: RollingUpdate, pods: Iterable[Json]) -> None:
        uid = cluster["metadata"]["uid"]
        own = [pod for pod in pods if owner_uid(pod) == uid]
        self._settings = settings
        self._groups = {pod["metadata"]["name"]: _group(pod) for pod in own}
        self._readiness = _readiness(own)
        self._steps: list[RollingStep] = []
        self._present: dict[str, GroupStep] = {}
        self._before = self._now = self._peak = sum(map(usage_of, own), Usage())

    def record(self, seconds: float, write: Write, removed: Sequence[Json]) -> None:
        """Implement `Recorder.record`."""
        del seconds
        target = write.target
        if target.resource is not PODS:
            return
        for pod in removed:
            self._now -= usage_of(pod)
        group = self._groups.get(target.name, "")
        match write:
            case Create(body=body):
                group = self._groups[target.name] = _group(dict(body))
                self._now += usage_of(dict(body))
                self._peak = self._peak.at_least(self._now)
                self._add(group, created=1)
            case Delete():
                self._add(group, deleted=target.name)
            case MergePatch(patch=patch):
                if dig(patch, "metadata", "annotations", labels.DRAINING_SINCE):
                    self._add(group, drained=target.name)
            case _:
                pass

    def settled(self) -> None:
        """Complete the step: the created pods become ready."""
        if not self._present:
            return
        groups = tuple(self._present.values())
        times = [self._readiness.get(each.group) for each in groups if each.created]
        known = [seconds for seconds in times if seconds is not None]
        seconds = max(known, default=0.0) if len(known) == len(times) else None
        self._steps.append(RollingStep(groups, seconds))
        self._present = {}

    def rolling(self) -> Rolling | None:
        """Return the recorded steps; None if no pod is replaced."""
        self.settled()
        done = [each for step in self._steps for each in step.groups]
        shrinks = {each.group for each in done if each.deleted}
        if shrinks.isdisjoint(each.group for each in done if each.created or each.drained):
            return None
        known = [step.seconds for step in self._steps if step.seconds is not None]
        created = {each.group for each in done if each.created}
        return Rolling(
            tuple(self._steps),
            self._before,
            self._peak,
            self._now,
            sum(known) if len(known) == len(self._steps) else None,
            tuple(sorted(created - self._readiness.keys())),
            self._settings.drain_timeout_seconds,
            sum(any(each.drained for each in step.groups) for step in self._steps),
        )

    def _add(self, group: str, *, drained: str = "", deleted: str = "", created: int = 0) -> None:
        present = self._present.get(group, GroupStep(group))
        self._present[group] = GroupStep(
            group,
            (*present.drained, drained) if drained else present.drained,
            (*present.deleted, deleted) if deleted else present.deleted,
            present.created + created,
        )


def _group(pod: Json) -> str:
    return mapping(pod["metadata"].get("labels")).get(labels.GROUP, "")


def _readiness(pods: Iterable[Json]) -> dict[str, float]:
    """Return the median seconds from the creation of a group's pods until they were ready.

    A pod with a container that was restarted shows when it was ready for the last time only.
    """
    found: dict[str, list[float]] = {}
    for pod in pods:
        containers = dig(pod, "status", "containerStatuses") or ()
        ready = _ready_at(pod)
        if ready is not None and not any(each.get("restartCount") for each in containers):
            created = datetime.fromisoformat(pod["metadata"]["creationTimestamp"])
            seconds = max(0.0, (ready - created).total_seconds())
            found.setdefault(_group(pod), []).append(seconds)
    return {group: median(seconds) for group, seconds in found.items()}


def _ready_at(pod: Json) -> datetime | None:
    for condition in dig(pod, "status", "conditions") or ():
        if condition.get("type") == READY and condition.get("status") == "True":
            return datetime.fromisoformat(condition["lastTransitionTime"])
    return None
