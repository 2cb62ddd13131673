"""The controllers of workloads, which keep pods by a template: Deployments and StatefulSets.

A Deployment creates its pods itself, without ReplicaSets. Its rollout takes one step: pods of the
new template are created at once, and the old ones go when these are ready, or before with the
strategy Recreate. Neither kind has a history.
"""

from __future__ import annotations

import itertools
import json
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from controller.apimachinery.conditions import rfc3339
from controller.apimachinery.metadata import owner_reference
from controller.devcluster.nodes.components import (
    ComponentContext,
    Enqueue,
    LoopComponent,
    delete_seen,
    own_key,
    record_event,
    suffix,
    write_status,
)
from controller.devcluster.nodes.objects import (
    DEPLOYMENTS,
    STATEFUL_SETS,
    ControlledDeployment,
    ControlledJob,
    ControlledStatefulSet,
    ReportedDeploymentStatus,
    ReportedStatefulSetStatus,
)
from controller.devcluster.nodes.pods import (
    PODS,
    ConditionUpdate,
    KubeletPod,
    PodConditionType,
    StatusPart,
    with_conditions,
)
from controller.kube.errors import AlreadyExists, Conflict, NotFound, StatusError
from controller.kube.objects import KubeObject
from controller.kube.resources import CLAIMS, Resource

_NAME_LIMIT: Final = 63

W = TypeVar("W", ControlledDeployment, ControlledJob, ControlledStatefulSet)


class WorkloadController(LoopComponent[str], Generic[W]):
    """Reconciles each workload after a change of it or of one of its pods."""

    def __init__(self, resource: Resource[W], context: ComponentContext) -> None:
        name = resource.plural
        super().__init__(name, context)
        self._client = context.client
        self._wall = context.wall
        self._resource = resource
        self._by_owner = f"uid of the owner among {name}"
        workloads = context.caches.informer(resource)
        workloads.add_handler(Enqueue(self._loop.add, own_key), name=name)
        self._workloads = workloads.lister
        pods = context.caches.informer(PODS)
        pods.add_index(self._by_owner, self._owner_uid)
        pods.add_handler(Enqueue(self._loop.add, self._owner_key), name=name)
        self._pods = pods.lister

    @abstractmethod
    async def _reconcile(self, workload: W, pods: Sequence[KubeletPod], /) -> float | None:
        """Create and delete pods, and report; return the seconds until the next turn.

        Raises:
            NotFound, Conflict, AlreadyExists: the cache is behind; the next event enqueues the
                workload again.
        """

    async def _sync(self, key: str) -> float | None:
        workload = self._workloads.get(key)
        if workload is None or workload.metadata.terminating:
            return None
        pods = self._pods.by_index(self._by_owner, workload.metadata.uid)
        try:
            return await self._reconcile(workload, pods)
        except (NotFound, Conflict, AlreadyExists):
            return None

    async def _create_pod(self, workload: W, body: dict[str, Any], prefix: str) -> None:
        """Create a pod; an event tells of a refusal."""
        try:
            await self._client.create(PODS, workload.metadata.namespace, body)
        except (AlreadyExists, Conflict):
            raise
        except StatusError as error:
            words, now = f"{prefix}{error.status.message}", self._wall()
            await record_event(
                self._client,
                self._resource,
                workload.metadata,
                reason="FailedCreate",
                message=words,
                component=f"{self._resource.kind.lower()}-controller",
                now=now,
            )
            raise

    async def _report(self, workload: W, status: StatusPart) -> None:
        meta, before = workload.metadata, workload.status
        await write_status(self._client, self._resource, meta, before, status)

    def _free_names(self, workload: W, stem: str, count: int) -> Iterator[str]:
        """Yield names of pods that do not exist: the same until they do."""
        meta, numbers = workload.metadata, itertools.count()
        while count > 0:
            tail = f"-{suffix(meta.uid, str(next(numbers)))}"
            name = stem[: _NAME_LIMIT - len(tail)] + tail
            if self._pods.get(f"{meta.namespace}/{name}") is None:
                count -= 1
                yield name

    def _owner_uid(self, child: KubeObject) -> tuple[str, ...]:
        owner = child.metadata.controller
        return (owner.uid,) if owner and owner.kind == self._resource.kind else ()

    def _owner_key(self, child: KubeObject) -> tuple[str, ...]:
        owner = child.metadata.controller
        if not owner or owner.kind != self._resource.kind:
            return ()
        return (f"{child.metadata.namespace}/{owner.name}",)


def pod_body(
    resource: Resource[W],
    workload: W,
    *,
    name: str,
    labels: Mapping[str, str],
    spec: Mapping[str, Any],
) -> dict[str, Any]:
    """Return a pod of the workload: metadata of its template, overlaid with `labels`."""
    meta = workload.metadata
    template_meta: dict[str, Any] = workload.spec.template.get("metadata") or {}
    return {
        "apiVersion": PODS.api_version,
        "kind": PODS.kind,
        "metadata": {
            "name": name,
            "namespace": meta.namespace,
            "labels": {**(template_meta.get("labels") or {}), **labels},
            "annotations": template_meta.get("annotations") or {},
            "finalizers": template_meta.get("finalizers") or [],
            "ownerReferences": [owner_reference(resource, meta)],
        },
        "spec": spec,
    }


# Deployments.


_HASH: Final = "pod-template-hash"


class DeploymentController(WorkloadController[ControlledDeployment]):
    """Creates and deletes the pods of Deployments, and writes their statuses."""

    def __init__(self, context: ComponentContext) -> None:
        super().__init__(DEPLOYMENTS, context)

    async def _reconcile(
        self, deployment: ControlledDeployment, pods: Sequence[KubeletPod], /
    ) -> None:
        spec, digest = deployment.spec, suffix(json.dumps(deployment.spec.template, sort_keys=True))
        active = [pod for pod in pods if not pod.is_finished and not pod.metadata.terminating]
        new = [pod for pod in active if (pod.metadata.labels or {}).get(_HASH) == digest]
        old = [pod for pod in active if pod not in new]
        if not spec.paused:
            recreates = spec.strategy.get("type") == "Recreate"
            surplus = sorted(new, key=_is_ready)[: max(len(new) - spec.count, 0)]
            if recreates or sum(map(_is_ready, new)) >= spec.count:
                surplus += old
            for pod in surplus:
                await delete_seen(self._client, PODS, pod)
            if not recreates or not old:
                await self._grow(deployment, digest, spec.count - len(new))
        await self._report(deployment, self._status(deployment, active, len(new)))

    async def _grow(self, deployment: ControlledDeployment, digest: str, missing: int) -> None:
        stem = f"{deployment.metadata.name}-{digest}"
        for name in self._free_names(deployment, stem, missing):
            body = pod_body(
                DEPLOYMENTS,
                deployment,
                name=name,
                labels={_HASH: digest},
                spec=deployment.spec.template["spec"],
            )
            with suppress(AlreadyExists):
                await self._create_pod(deployment, body, "")

    def _status(
        self, deployment: ControlledDeployment, active: Sequence[KubeletPod], updated: int
    ) -> ReportedDeploymentStatus:
        ready = sum(map(_is_ready, active))
        enough = ready >= deployment.spec.count
        available = ConditionUpdate(
            "Available",
            is_true=enough,
            reason="MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
            message=f"Deployment {'has' if enough else 'does not have'} minimum availability.",
        )
        return replace(
            deployment.status,
            observed_generation=deployment.metadata.generation,
            replicas=len(active),
            updated_replicas=updated,
            ready_replicas=ready,
            available_replicas=ready,
            conditions=with_conditions(
                deployment.status.conditions, [available], rfc3339(self._wall())
            ),
        )


# StatefulSets.


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
    numbered = dict(sorted(_numbered(stateful_set, pods)))
    status = _status(stateful_set, numbered)
    ended = tuple(p for p in numbered.values() if p.is_finished and not p.metadata.terminating)
    if ended:
        return StatefulSetPlan(status, deletes=ended)
    creates = tuple(number for number in range(spec.count) if number not in numbered)
    surplus = tuple(pod for number, pod in numbered.items() if number >= spec.count)
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


class StatefulSetController(WorkloadController[ControlledStatefulSet]):
    """Creates, replaces and deletes the pods of StatefulSets, and writes their statuses."""

    def __init__(self, context: ComponentContext) -> None:
        super().__init__(STATEFUL_SETS, context)

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
