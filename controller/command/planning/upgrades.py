"""What an upgrade would do, step by step, and what it needs meanwhile."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from statistics import median
from typing import Any, Final, Literal

import msgspec

from controller.apimachinery.conditions import READY
from controller.apimachinery.custom_object import dig, mapping, without_nulls
from controller.apimachinery.quantity import ZERO
from controller.apimachinery.validation import Problem
from controller.command.planning.snapshot import group_of, owner_uid
from controller.kube.resources import PODS, SERVICES
from controller.ray.api import RAYCLUSTERS, labels
from controller.ray.api.rayservice import RAYSERVICES
from controller.ray.api.upgrade_strategy import (
    RayClusterUpgradeStrategy,
    RollingUpdate,
    strategy_in_force,
)
from controller.ray.pods.environment import is_gpu, quantities
from controller.runtime.plan import Create, Delete, JsonPatch, MergePatch, Write

# The sum of the resources that pods ask for.

Json = dict[str, Any]


class Usage(msgspec.Struct, frozen=True):
    """The CPUs and GPUs that a number of pods ask for, with all their containers."""

    pods: int = 0
    cpus: float = 0
    gpus: int = 0

    def __add__(self, other: Usage) -> Usage:
        """Return both together."""
        return Usage(self.pods + other.pods, self.cpus + other.cpus, self.gpus + other.gpus)

    def __sub__(self, other: Usage) -> Usage:
        """Return the difference."""
        return Usage(self.pods - other.pods, self.cpus - other.cpus, self.gpus - other.gpus)

    def at_least(self, other: Usage) -> Usage:
        """Return the larger of each number."""
        return Usage(
            max(self.pods, other.pods), max(self.cpus, other.cpus), max(self.gpus, other.gpus)
        )

    def __str__(self) -> str:
        """Return a text for users: `3 Pods, 4.5 CPUs, 1 GPU`."""
        parts = [_counted(self.pods, "Pod"), _counted(self.cpus, "CPU")]
        return ", ".join([*parts, _counted(self.gpus, "GPU")] if self.gpus else parts)


def usage_of(pod: Json) -> Usage:
    """Return the resources that a pod asks for: requests, or limits where it has none."""
    cpus, gpus = ZERO, ZERO
    for container in pod["spec"]["containers"]:
        resources = mapping(container.get("resources"))
        limits, requests = (mapping(resources.get(each)) for each in ("limits", "requests"))
        for name, amount in (quantities(limits) | quantities(requests)).items():
            if name == "cpu":
                cpus += amount
            elif is_gpu(name):
                gpus += amount
    return Usage(1, cpus.nanos / 10**9, gpus.value)


def _counted(number: float, unit: str) -> str:
    return f"{number:g} {unit}" if number == 1 else f"{number:g} {unit}s"


# The steps of a rolling update: the pods that each replaces, and the peak of resources.
#
# The operator's own plans are recorded; between two steps the pods that were created become ready.


class GroupStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """The changes of a step in one group, `headgroup` for the head.

    Ray drains pods before they are deleted.
    """

    group: str
    drained: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    created: int = 0


class RollingStep(msgspec.Struct, frozen=True):
    """Everything that is done before the next pods have to be ready.

    `seconds` are how long the pods that it creates take to be ready, as the present pods of their
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
    """A rolling update, with what the pods of the cluster ask for before, at the most, and after.

    Attributes:
        seconds: how long new pods take to be ready, all steps together; None if that cannot be
            known. Drains come on top.
        unmeasured: groups without a ready pod to measure.
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
    """Follows the writes of a dry run of one RayCluster, which had these pods before."""

    def __init__(self, cluster: Json, settings: RollingUpdate, pods: Iterable[Json]) -> None:
        uid = cluster["metadata"]["uid"]
        own = [pod for pod in pods if owner_uid(pod) == uid]
        self._settings = settings
        self._groups = {pod["metadata"]["name"]: group_of(pod) for pod in own}
        self._readiness = _readiness(own)
        self._steps: list[RollingStep] = []
        self._present: dict[str, GroupStep] = {}
        self._before = self._now = self._peak = sum(map(usage_of, own), Usage())

    def record(self, seconds: float, write: Write, removed: Sequence[Json]) -> None:
        """Record a write and what went with it, so many seconds after the start."""
        del seconds
        target = write.target
        if target.resource is not PODS:
            return
        for pod in removed:
            self._now -= usage_of(pod)
        group = self._groups.get(target.name, "")
        match write:
            case Create(body=body):
                group = self._groups[target.name] = group_of(dict(body))
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
            found.setdefault(group_of(pod), []).append(seconds)
    return {group: median(seconds) for group, seconds in found.items()}


def _ready_at(pod: Json) -> datetime | None:
    for condition in dig(pod, "status", "conditions") or ():
        if condition.get("type") == READY and condition.get("status") == "True":
            return datetime.fromisoformat(condition["lastTransitionTime"])
    return None


# The order in which clusters of a RayService or a RayClusterFleet change, and the peak.

_ROLES: Final = ("activeServiceStatus", "pendingServiceStatus")

_SPECIFICATIONS: Final = (("rayClusterConfig",), ("template", "spec"))
"""The fields in which the two kinds describe a cluster."""

StepAction = Literal["create", "configure", "change", "scale", "route", "delete"]

_ON_CLUSTER: Final[Mapping[type[Write], StepAction]] = {
    Create: "create",
    Delete: "delete",
    JsonPatch: "change",
}


class RolloutStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step of a rollout.

    Attributes:
        action: `create`, `change` (in place) or `delete` a cluster, `configure` it with another
            Serve config, `scale` its Serve to a target capacity, or `route` requests to it.
        cluster: its name, with `*` for what is not known beforehand.
        seconds: how long after the first step, as far as the operator itself waits. The time that
            pods and applications take to start comes on top.
        percent: the capacity, or the share of the requests.
    """

    action: StepAction
    cluster: str
    seconds: int = 0
    percent: int = 100


class RolloutPlan(msgspec.Struct, frozen=True):
    """The changes of the clusters of a RayService or a fleet, and what their pods ask for.

    With `autoscaled`, Ray's autoscaler may add workers, which are counted nowhere: how many depends
    on the requests.
    """

    steps: tuple[RolloutStep, ...]
    before: Usage
    peak: Usage
    after: Usage
    autoscaled: bool = False

    def renamed(self, rename: Callable[[str], str]) -> RolloutPlan:
        """Return the plan with other names of clusters."""
        steps = (msgspec.structs.replace(step, cluster=rename(step.cluster)) for step in self.steps)
        return msgspec.structs.replace(self, steps=tuple(steps))


class RolloutRecorder:
    """Follows the writes of a dry run of a RayService or RayClusterFleet.

    Clusters and pods are those before the first write.
    """

    def __init__(self, owner: Json, clusters: Sequence[Json], pods: Sequence[Json]) -> None:
        self._uid: str = owner["metadata"]["uid"]
        self._autoscaled = any(
            dig(owner, "spec", *path, "enableInTreeAutoscaling") for path in _SPECIFICATIONS
        )
        self._names: dict[str, str] = {
            role: mapping(mapping(owner.get("status")).get(role)).get("rayClusterName", "")
            for role in _ROLES
        }
        self._steps: list[RolloutStep] = []
        own = {each["metadata"]["uid"] for each in clusters if owner_uid(each) == self._uid}
        mine = (usage_of(pod) for pod in pods if owner_uid(pod) in own)
        self._before = self._now = self._peak = sum(mine, Usage())

    def record(self, seconds: float, write: Write, removed: Sequence[Json]) -> None:
        """Record a write and what went with it, so many seconds after the start."""
        for pod in (each for each in removed if dig(each, "spec", "containers")):
            self._now -= usage_of(pod)
        if isinstance(write, Create) and write.target.resource is PODS:
            self._now += usage_of(dict(write.body))
            self._peak = self._peak.at_least(self._now)
        for action, cluster, percent in self._actions(write):
            step = RolloutStep(action, cluster, math.ceil(seconds), percent)
            if not self._steps or self._steps[-1] != step:
                self._steps.append(step)

    def settled(self) -> None:
        """Do nothing: pods do not affect the order of the steps."""

    def rollout(self) -> RolloutPlan:
        """Return the recorded rollout."""
        return RolloutPlan(
            tuple(self._steps), self._before, self._peak, self._now, self._autoscaled
        )

    def _actions(self, write: Write) -> Iterator[tuple[StepAction, str, int]]:
        target = write.target
        match write:
            case Create() | Delete() | JsonPatch() if target.resource is RAYCLUSTERS:
                yield _ON_CLUSTER[type(write)], target.name, 100
            case MergePatch(patch=patch) if target.resource is RAYCLUSTERS:
                if labels.SERVE_CONFIG in (dig(patch, "metadata", "annotations") or {}):
                    yield "configure", target.name, 100
            case Create(body=body) if target.resource is SERVICES:
                if owner_uid(dict(body)) == self._uid:
                    yield from _route(body)
            case MergePatch(patch=patch) if target.resource is SERVICES:
                yield from _route(patch)
            case MergePatch(patch=patch) if target.resource is RAYSERVICES:
                yield from self._shares(mapping(patch.get("status")))
            case _:
                pass

    def _shares(self, status: Mapping[str, Any]) -> Iterator[tuple[StepAction, str, int]]:
        """Yield changes of capacity and weight, including the first of a new cluster."""
        chosen = False
        for role in _ROLES:
            if role in status:
                name = mapping(status[role]).get("rayClusterName", self._names[role])
                chosen = chosen or name != self._names[role]
                self._names[role] = name
        for role in () if chosen else _ROLES:
            share = mapping(status.get(role))
            if isinstance(percent := share.get("targetCapacity"), int):
                yield "scale", self._names[role], percent
            if isinstance(percent := share.get("trafficRoutedPercent"), int):
                yield "route", self._names[role], percent


def _route(body: Mapping[str, Any]) -> Iterator[tuple[StepAction, str, int]]:
    cluster = dig(body, "spec", "selector", labels.CLUSTER)
    if cluster:
        yield "route", cluster, 100
