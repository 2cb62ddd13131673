"""Plans for StatefulSets, as a pure function of the set and its pods.

Pods are numbered. A set whose policy is OrderedReady makes them one by one, each when all before it
are ready, and removes them one by one from the last; another does all at once. An update replaces
one pod at a time, from the last, while all others are ready.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from controller.devcluster.nodes.components.suffixes import suffix
from controller.devcluster.nodes.objects.pods import PodConditionType

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from controller.devcluster.nodes.objects.pods import KubeletPod
    from controller.devcluster.nodes.objects.views import (
        ControlledStatefulSet,
        ReportedStatefulSetStatus,
    )

REVISION_LABEL: Final = "controller-revision-hash"


@dataclass(frozen=True, slots=True)
class StatefulSetPlan:
    """The plan for one StatefulSet.

    Attributes:
        status: the desired status.
        creates: numbers of the pods to create.
        deletes: pods to delete.
    """

    status: ReportedStatefulSetStatus
    creates: tuple[int, ...] = ()
    deletes: tuple[KubeletPod, ...] = ()


def revision(stateful_set: ControlledStatefulSet) -> str:
    """Return the name of the revision of its pods, always the same for a template."""
    template = json.dumps(stateful_set.spec.template, sort_keys=True)
    return f"{stateful_set.metadata.name}-{suffix(template)}"


def plan_stateful_set(
    stateful_set: ControlledStatefulSet, pods: Sequence[KubeletPod]
) -> StatefulSetPlan:
    """Return the plan for the set with its pods."""
    spec = stateful_set.spec
    count = 1 if spec.replicas is None else spec.replicas
    numbered = dict(sorted(_numbered(stateful_set, pods)))
    status = _status(stateful_set, numbered)
    ended = tuple(p for p in numbered.values() if p.is_finished and not p.metadata.terminating)
    if ended:
        return StatefulSetPlan(status, deletes=ended)
    creates = tuple(number for number in range(count) if number not in numbered)
    surplus = tuple(pod for number, pod in numbered.items() if number >= count)
    if spec.pod_management_policy != "Parallel":
        before = (pod for number, pod in numbered.items() if number < min(creates, default=0))
        creates = creates[:1] if all(map(_is_ready, before)) else ()
        surplus = surplus[-1:]
    if not creates and not surplus and spec.update_strategy.type != "OnDelete":
        surplus = tuple(_outdated(stateful_set, numbered))[:1]
    staying = tuple(pod for pod in surplus if not pod.metadata.terminating)
    return StatefulSetPlan(status, creates, staying)


def _numbered(
    stateful_set: ControlledStatefulSet, pods: Sequence[KubeletPod]
) -> Iterator[tuple[int, KubeletPod]]:
    for pod in pods:
        name, _, number = pod.metadata.name.rpartition("-")
        if name == stateful_set.metadata.name and number.isdecimal():
            yield int(number), pod


def _outdated(
    stateful_set: ControlledStatefulSet, numbered: Mapping[int, KubeletPod]
) -> Iterator[KubeletPod]:
    """Yield pods of another revision, the last first; none while another pod is not ready."""
    wanted = revision(stateful_set)
    for number in sorted(numbered, reverse=True):
        others = (pod for other, pod in numbered.items() if other != number)
        if not _is_of(numbered[number], wanted) and all(map(_is_ready, others)):
            yield numbered[number]


def _status(
    stateful_set: ControlledStatefulSet, numbered: Mapping[int, KubeletPod]
) -> ReportedStatefulSetStatus:
    old, new = stateful_set.status, revision(stateful_set)
    pods = tuple(numbered.values())
    updated = sum(_is_of(pod, new) for pod in pods)
    current = old.current_revision or new
    if updated == len(pods):
        current = new
    ready = sum(map(_is_ready, pods))
    return replace(
        old,
        observed_generation=stateful_set.metadata.generation,
        replicas=len(pods),
        ready_replicas=ready,
        available_replicas=ready,
        updated_replicas=updated,
        current_replicas=sum(_is_of(pod, current) for pod in pods),
        current_revision=current,
        update_revision=new,
    )


def _is_ready(pod: KubeletPod) -> bool:
    return pod.status.is_true(PodConditionType.READY) and not pod.metadata.terminating


def _is_of(pod: KubeletPod, name: str) -> bool:
    return (pod.metadata.labels or {}).get(REVISION_LABEL) == name
