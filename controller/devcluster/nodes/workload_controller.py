"""The common part of the controllers of workloads: children, statuses, and pods by template."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

from controller.apimachinery.metadata import owner_reference
from controller.devcluster.nodes.components import (
    ComponentContext,
    Enqueue,
    LoopComponent,
    own_key,
    record_event,
    write_status,
)
from controller.devcluster.nodes.objects import (
    ControlledDeployment,
    ControlledJob,
    ControlledReplicaSet,
    ControlledStatefulSet,
)
from controller.devcluster.nodes.pods import PODS, KubeletPod, StatusPart
from controller.kube.errors import AlreadyExists, Conflict, NotFound, StatusError
from controller.kube.objects import KubeObject
from controller.kube.resources import Resource

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
