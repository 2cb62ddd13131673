"""The order in which clusters of a RayService or a RayClusterFleet change, and the peak."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from controller.apimachinery.custom_object import dig, mapping
from controller.command.planning.snapshot import owner_uid
from controller.command.planning.upgrades.usage import Usage, usage_of
from controller.kube.resources import PODS, SERVICES
from controller.ray.api import RAYCLUSTERS, labels
from controller.ray.api.rayservice import RAYSERVICES
from controller.runtime.plan import Create, Delete, JsonPatch, MergePatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from controller.runtime.plan import Write

Json = dict[str, Any]

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
    """The changes of the clusters of a RayService or a RayClusterFleet.

    Attributes:
        steps: in their order.
        before: what the pods of all its clusters ask for now.
        peak: the most that they ask for on the way.
        after: what they ask for in the end.
        autoscaled: whether Ray's autoscaler may add workers, which are counted nowhere: how many
            depends on the requests.
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
    """Follows the writes of a dry run.

    Args:
        owner: the RayService or RayClusterFleet, as the API server has it.
        clusters: RayClusters before the first write.
        pods: Ray pods before the first write.
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
        """Implement `Recorder.record`."""
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
