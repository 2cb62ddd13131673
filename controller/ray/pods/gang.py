"""What a batch scheduler must find on pods, and how much of a cluster must fit at once.

Pure: from a Ray object and its specification to marks and numbers. Keys, names and numbers are
KubeRay's, because the schedulers and their dashboards know them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct, field

from controller.apimachinery.quantity import ZERO, Quantity
from controller.kube.objects import ObjectMeta
from controller.ray.api import labels
from controller.ray.api.batch_schedulers import (
    KAI,
    PLUGINS,
    VOLCANO,
    WORKLOAD_API,
    YUNIKORN,
    BatchScheduler,
)
from controller.ray.api.raycluster import ClusterSpec, WorkerGroup
from controller.ray.pods.environment import requests_of

SUBMITTER_GROUP: Final = "submittergroup"
"""The group of a RayJob's submitter, for batch schedulers only."""

_GROUP_NAME: Final = "scheduling.k8s.io/group-name"
_TASK: Final = "volcano.sh/task-spec"
_POD_GROUP: Final = "scheduling.x-k8s.io/pod-group"
_TASK_GROUPS: Final = "yunikorn.apache.org/task-groups"
_TASK_GROUP_NAME: Final = "yunikorn.apache.org/task-group-name"
_PLACEMENT: Final = ("nodeSelector", "tolerations", "affinity")

Body = dict[str, Any]


def is_gang(scheduler: BatchScheduler, owner: ObjectMeta, spec: ClusterSpec) -> bool:
    """Return whether the pods of an object are to be scheduled as one."""
    given = owner.labels or {}
    if scheduler is WORKLOAD_API:  # of a changing size it cannot tell what must fit
        return given.get(labels.GANG, "").lower() == "true" and not spec.autoscaling
    return scheduler is VOLCANO or (scheduler is not KAI and labels.GANG in given)


def pod_group_name(scheduler: BatchScheduler, owner: ObjectMeta) -> str:
    """Return the name of the PodGroup that pods of an object belong to.

    Those of a RayJob's cluster belong to the RayJob's group with Volcano.
    """
    if scheduler is VOLCANO:
        job = job_of(owner)
        return f"ray-{job or owner.name}-pg"
    return owner.name if scheduler is PLUGINS else f"{owner.name}-cluster"


def job_of(cluster: ObjectMeta) -> str:
    """Return the name of the RayJob that a cluster was created for, empty if there is none.

    The owner tells, not the labels: a copy of such a cluster has them too.
    """
    owner = cluster.controller
    return owner.name if owner is not None and owner.kind == "RayJob" else ""


# How much of a cluster must fit.


class GangSize(Struct, frozen=True):
    """The least that is worth starting."""

    members: int = 0
    resources: Mapping[str, Quantity] = field(default_factory=dict[str, Quantity])

    def amounts(self) -> dict[str, str]:
        """Return the resources as canonical text."""
        return {name: str(amount) for name, amount in self.resources.items()}


def gang_size(
    spec: ClusterSpec, more: Iterable[Mapping[str, Any]] = (), *, least: bool
) -> GangSize:
    """Return the size of a cluster's gang: the head and the workers of groups not suspended.

    Args:
        spec: the cluster's specification, valid.
        more: containers whose requests are reserved beside those of the members.
        least: whether only the least replicas of a cluster that an autoscaler resizes count.
    """
    parts = [(_containers(spec.head_group_spec.template), 1), (more, 1)]
    members = 1
    for group in spec.worker_group_specs:
        pods = least_pods(group) if least and spec.autoscaling else group.desired_pods
        members += pods
        if not group.suspend:
            parts.append((_containers(group.template), pods))
    total: dict[str, Quantity] = {}
    for containers, times in parts:
        for name, amount in requests_of(containers).items():
            total[name] = total.get(name, ZERO) + amount * times
    return GangSize(members, total)


def least_pods(group: WorkerGroup) -> int:
    """Return the least number of pods of a group; none while it is suspended."""
    return 0 if group.suspend else group.least * group.hosts


def _containers(template: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return template["spec"]["containers"]


# Marks of pods, and of what pods are made from.


class Marks(Struct, frozen=True):
    """What is added to an object for the scheduler.

    Attributes:
        labels: labels; they replace others of the same key.
        annotations: annotations, likewise.
    """

    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])
    pod: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def mark(self, metadata: Body, pod: Body | None = None) -> None:
        """Add the marks to an object's metadata and to a pod's specification."""
        for where, added in (("labels", self.labels), ("annotations", self.annotations)):
            if added:
                metadata[where] = {**(metadata.get(where) or {}), **added}
        if pod is not None:
            pod.update(self.pod)


NO_MARKS: Final = Marks()


def marks_of(
    scheduler: BatchScheduler | None,
    owner: ObjectMeta,
    spec: ClusterSpec,
    group: str,
    submitter: Mapping[str, Any] | None = None,
) -> Marks:
    """Return the marks of a pod of an object.

    Args:
        scheduler: the chosen scheduler, None if there is none.
        owner: metadata of the RayCluster or RayJob.
        spec: the cluster's specification, valid.
        group: the pod's group; empty for a RayCluster that a RayJob creates.
        submitter: specification of a RayJob's submitter pod, which is a group of its own.
    """
    if scheduler is None:
        return NO_MARKS
    gang, given = is_gang(scheduler, owner, spec), owner.labels or {}
    if scheduler is WORKLOAD_API and not gang:
        return NO_MARKS
    copied = {key: given[own] for own, key in scheduler.copied.items() if given.get(own)}
    annotations: dict[str, str] = {}
    pod: Body = {"schedulerName": scheduler.pods_name}
    if scheduler is VOLCANO:
        annotations = {_GROUP_NAME: pod_group_name(scheduler, owner), _TASK: group}
    elif scheduler is YUNIKORN and gang:
        ready_made = (owner.annotations or {}).get(_TASK_GROUPS)
        annotations[_TASK_GROUPS] = ready_made or _task_groups(spec, submitter)
        if group:
            annotations[_TASK_GROUP_NAME] = group
    elif scheduler is PLUGINS and gang:
        copied[_POD_GROUP] = pod_group_name(scheduler, owner)
    elif scheduler is WORKLOAD_API:
        pod["schedulingGroup"] = {"podGroupName": pod_group_name(scheduler, owner)}
    return Marks(copied, annotations, pod)


def _task_groups(spec: ClusterSpec, submitter: Mapping[str, Any] | None) -> str:
    """Return YuniKorn's list of groups: what must fit of each, and where it may run."""
    return json.dumps(list(_groups(spec, submitter)), separators=(",", ":"))


def _groups(spec: ClusterSpec, submitter: Mapping[str, Any] | None) -> Iterator[Body]:
    yield _group(labels.HEAD_GROUP, 1, spec.head_group_spec.template["spec"])
    for group in spec.worker_group_specs:
        yield _group(group.group_name, least_pods(group), group.template["spec"])
    if submitter is not None:
        yield _group(SUBMITTER_GROUP, 1, submitter)


def _group(name: str, members: int, pod: Mapping[str, Any]) -> Body:
    requests = requests_of(pod["containers"])
    return {
        "name": name,
        "minMember": members,
        "minResource": {key: str(requests[key]) for key in sorted(requests)},
        **{key: pod[key] for key in _PLACEMENT if pod.get(key)},
    }
