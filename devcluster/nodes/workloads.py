"""The controllers of workloads, which keep pods by a template: Deployments and StatefulSets.

A Deployment's rollout takes one step: the new ReplicaSet grows to its full size, and the old ones
go when it is ready, or before with the strategy Recreate. Neither kind has a history.
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
from controller.kube.errors import AlreadyExists, Conflict, NotFound, StatusError
from controller.kube.objects import KubeObject
from controller.kube.resources import CLAIMS, Resource
from devcluster.nodes.components import (
    ComponentContext,
    Enqueue,
    LoopComponent,
    delete_seen,
    own_key,
    record_event,
    suffix,
    write_status,
)
from devcluster.nodes.objects import (
    DEPLOYMENTS,
    REPLICA_SETS,
    STATEFUL_SETS,
    ControlledDeployment,
    ControlledJob,
    ControlledReplicaSet,
    ControlledStatefulSet,
    ReportedDeploymentStatus,
    ReportedStatefulSetStatus,
)
from devcluster.nodes.pods import (
    PODS,
    ConditionUpdate,
    KubeletPod,
    PodConditionType,
    StatusPart,
    with_conditions,
)

W = TypeVar("W", ControlledDeployment, ControlledJob, ControlledReplicaSet, ControlledStatefulSet)
C = TypeVar("C", KubeletPod, ControlledReplicaSet)


class WorkloadController(LoopComponent[str], Generic[W, C]):
    """Reconciles each workload after a change of it or of one of its children."""

    def __init__(
        self, resource: Resource[W], children: Resource[C], context: ComponentContext
    ) -> None:
        name = resource.plural
        super().__init__(name, context)
        self._client = context.client
        self._wall = context.wall
        self._resource = resource
        self._by_owner = f"uid of the owner among {name}"
        workloads = context.caches.informer(resource)
        workloads.add_handler(Enqueue(self._loop.add, own_key), name=name)
        self._workloads = workloads.lister
        informer = context.caches.informer(children)
        informer.add_index(self._by_owner, self._owner_uid)
        informer.add_handler(Enqueue(self._loop.add, self._owner_key), name=name)
        self._children = informer.lister

    @abstractmethod
    async def _reconcile(self, workload: W, children: Sequence[C], /) -> float | None:
        """Create and delete children, and report; return the seconds until the next turn.

        Raises:
            NotFound, Conflict, AlreadyExists: the cache is behind; the next event enqueues the
                workload again.
        """

    async def _sync(self, key: str) -> float | None:
        workload = self._workloads.get(key)
        if workload is None or workload.metadata.terminating:
            return None
        children = self._children.by_index(self._by_owner, workload.metadata.uid)
        try:
            return await self._reconcile(workload, children)
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


# Deployments and ReplicaSets.


_HASH: Final = "pod-template-hash"


class ReplicaSetController(WorkloadController[ControlledReplicaSet, KubeletPod]):
    """Creates and deletes the pods of ReplicaSets, and writes their statuses."""

    def __init__(self, context: ComponentContext) -> None:
        super().__init__(REPLICA_SETS, PODS, context)

    async def _reconcile(
        self, workload: ControlledReplicaSet, pods: Sequence[KubeletPod], /
    ) -> None:
        active = [pod for pod in pods if not pod.is_finished and not pod.metadata.terminating]
        ready = [pod for pod in active if pod.status.is_true(PodConditionType.READY)]
        missing = workload.spec.count - len(active)
        for pod in sorted(active, key=lambda pod: pod in ready)[: max(-missing, 0)]:
            await delete_seen(self._client, PODS, pod)
        for name in itertools.islice(self._names(workload), max(missing, 0)):
            body = pod_body(
                REPLICA_SETS, workload, name=name, labels={}, spec=workload.spec.template["spec"]
            )
            with suppress(AlreadyExists):
                await self._create_pod(workload, body, "")
        status = replace(
            workload.status,
            observed_generation=workload.metadata.generation,
            replicas=len(active),
            ready_replicas=len(ready),
            available_replicas=len(ready),
        )
        await self._report(workload, status)

    def _names(self, workload: ControlledReplicaSet) -> Iterator[str]:
        """Yield names of pods that do not exist: the same until they do."""
        meta = workload.metadata
        for number in itertools.count():
            name = f"{meta.name}-{suffix(meta.uid, str(number))}"
            if self._children.get(f"{meta.namespace}/{name}") is None:
                yield name


class DeploymentController(WorkloadController[ControlledDeployment, ControlledReplicaSet]):
    """Creates and scales the ReplicaSets of Deployments, and writes their statuses."""

    def __init__(self, context: ComponentContext) -> None:
        super().__init__(DEPLOYMENTS, REPLICA_SETS, context)

    async def _reconcile(
        self, deployment: ControlledDeployment, owned: Sequence[ControlledReplicaSet], /
    ) -> None:
        meta, spec = deployment.metadata, deployment.spec
        digest = suffix(json.dumps(spec.template, sort_keys=True))
        new = next((each for each in owned if each.metadata.name == f"{meta.name}-{digest}"), None)
        old = [each for each in owned if each is not new]
        recreates = spec.strategy.get("type") == "Recreate"
        if not spec.paused:
            is_ready = new is not None and new.status.ready_replicas >= spec.count
            for each in old if recreates or is_ready else ():
                await self._scale(each, 0)
            if not recreates or not any(each.status.replicas for each in old):
                await self._grow(deployment, new, digest)
        await self._report(deployment, self._status(deployment, new, owned))

    async def _grow(
        self, deployment: ControlledDeployment, new: ControlledReplicaSet | None, digest: str
    ) -> None:
        meta, spec = deployment.metadata, deployment.spec
        if new is not None:
            await self._scale(new, spec.count)
            return
        template = dict(spec.template)
        pod_meta: dict[str, Any] = template.get("metadata") or {}
        labels: dict[str, str] = {**(pod_meta.get("labels") or {}), _HASH: digest}
        exact: dict[str, str] = {**(spec.selector.get("matchLabels") or {}), _HASH: digest}
        body = {
            "apiVersion": REPLICA_SETS.api_version,
            "kind": REPLICA_SETS.kind,
            "metadata": {
                "name": f"{meta.name}-{digest}",
                "namespace": meta.namespace,
                "labels": labels,
                "ownerReferences": [owner_reference(DEPLOYMENTS, meta)],
            },
            "spec": {
                "replicas": spec.count,
                "selector": {**spec.selector, "matchLabels": exact},
                "template": {**template, "metadata": {**pod_meta, "labels": labels}},
            },
        }
        await self._client.create(REPLICA_SETS, meta.namespace, body)

    async def _scale(self, found: ControlledReplicaSet, count: int) -> None:
        if found.spec.count != count:
            meta = found.metadata
            patch = {
                "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
                "spec": {"replicas": count},
            }
            await self._client.merge_patch(REPLICA_SETS, meta.namespace, meta.name, patch)

    def _status(
        self,
        deployment: ControlledDeployment,
        new: ControlledReplicaSet | None,
        owned: Sequence[ControlledReplicaSet],
    ) -> ReportedDeploymentStatus:
        ready = sum(each.status.ready_replicas for each in owned)
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
            replicas=sum(each.status.replicas for each in owned),
            updated_replicas=new.status.replicas if new else 0,
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
