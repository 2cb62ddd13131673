"""The controller of StatefulSets, without history: its plans, and the bodies of its pods."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from controller.devcluster.nodes.components import ComponentContext, delete_seen, suffix
from controller.devcluster.nodes.objects import (
    STATEFUL_SETS,
    ControlledStatefulSet,
    ReportedStatefulSetStatus,
)
from controller.devcluster.nodes.pods import PODS, KubeletPod, PodConditionType
from controller.devcluster.nodes.workload_controller import WorkloadController, pod_body
from controller.kube.errors import AlreadyExists
from controller.kube.resources import CLAIMS

REVISION_LABEL: Final = "controller-revision-hash"


class StatefulSetPlan(Struct, frozen=True):
    """The plan for one StatefulSet."""

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


_POD_NAME = "statefulset.kubernetes.io/pod-name"
_POD_INDEX = "apps.kubernetes.io/pod-index"


def claim_bodies(stateful_set: ControlledStatefulSet, number: int) -> dict[str, dict[str, Any]]:
    """Return the claims of the pod of that number, by volume; they outlive the set."""
    meta = stateful_set.metadata
    return {
        volume: {
            "apiVersion": CLAIMS.api_version,
            "kind": CLAIMS.kind,
            "metadata": {
                "name": f"{volume}-{meta.name}-{number}",
                "namespace": meta.namespace,
                "labels": claim["metadata"].get("labels") or {},
            },
            "spec": claim.get("spec") or {},
        }
        for claim in stateful_set.spec.volume_claim_templates
        for volume in (claim["metadata"]["name"],)
    }


def numbered_pod(stateful_set: ControlledStatefulSet, number: int) -> dict[str, Any]:
    """Return the pod of that number."""
    name = f"{stateful_set.metadata.name}-{number}"
    return pod_body(
        STATEFUL_SETS,
        stateful_set,
        name=name,
        labels={_POD_NAME: name, _POD_INDEX: str(number), REVISION_LABEL: revision(stateful_set)},
        spec=_spec(stateful_set.spec.template.get("spec") or {}, stateful_set, number),
    )


def _spec(
    given: dict[str, Any], stateful_set: ControlledStatefulSet, number: int
) -> dict[str, Any]:
    claimed = {
        volume: {"name": volume, "persistentVolumeClaim": {"claimName": body["metadata"]["name"]}}
        for volume, body in claim_bodies(stateful_set, number).items()
    }
    others = [each for each in given.get("volumes") or () if each["name"] not in claimed]
    return {
        **given,
        "hostname": f"{stateful_set.metadata.name}-{number}",
        "subdomain": stateful_set.spec.service_name,
        "volumes": [*claimed.values(), *others],
    }


class StatefulSetController(WorkloadController[ControlledStatefulSet, KubeletPod]):
    """Creates, replaces and deletes the pods of StatefulSets, and writes their statuses."""

    def __init__(self, context: ComponentContext) -> None:
        super().__init__(STATEFUL_SETS, PODS, context)

    async def _reconcile(
        self, stateful_set: ControlledStatefulSet, pods: Sequence[KubeletPod], /
    ) -> None:
        plan = plan_stateful_set(stateful_set, pods)
        for pod in plan.deletes:
            await delete_seen(self._client, PODS, pod)
        for number in plan.creates:
            await self._create(stateful_set, number)
        await self._report(stateful_set, plan.status)

    async def _create(self, stateful_set: ControlledStatefulSet, number: int) -> None:
        """Create a pod and its claims; an existing one will be seen soon."""
        namespace = stateful_set.metadata.namespace
        for claim in claim_bodies(stateful_set, number).values():
            with suppress(AlreadyExists):
                await self._client.create(CLAIMS, namespace, claim)
        with suppress(AlreadyExists):
            name = stateful_set.metadata.name
            prefix = f"create Pod {name}-{number} in StatefulSet {name} failed error: "
            await self._create_pod(stateful_set, numbered_pod(stateful_set, number), prefix)
