"""The controllers of Deployments and of their ReplicaSets.

A rollout takes one step: the new ReplicaSet grows to its full size, and the old ones go when it is
ready, or before with the strategy Recreate. There is no history to go back to.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

from msgspec.structs import replace

from controller.apimachinery.conditions import rfc3339
from controller.apimachinery.metadata import owner_reference
from controller.devcluster.nodes.components import ComponentContext, delete_seen, suffix
from controller.devcluster.nodes.objects import (
    DEPLOYMENTS,
    REPLICA_SETS,
    ControlledDeployment,
    ControlledReplicaSet,
    ReportedReplicas,
)
from controller.devcluster.nodes.pods import (
    PODS,
    ConditionUpdate,
    KubeletPod,
    PodConditionType,
    with_conditions,
)
from controller.devcluster.nodes.workload_controller import WorkloadController, pod_body
from controller.kube.errors import AlreadyExists

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
    ) -> ReportedReplicas:
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
