"""The StatefulSet controller, without history: there are no ControllerRevisions."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from controller.devcluster.nodes.component_context import LoopComponent
from controller.devcluster.nodes.control import Enqueue
from controller.devcluster.nodes.deletion import delete_seen
from controller.devcluster.nodes.pods import PODS
from controller.devcluster.nodes.stateful_set_bodies import claim_bodies, pod_body
from controller.devcluster.nodes.stateful_set_plan import plan_stateful_set
from controller.devcluster.nodes.statuses import status_patch
from controller.devcluster.nodes.views import STATEFUL_SETS
from controller.kube.errors import AlreadyExists, Conflict, NotFound
from controller.kube.resources import CLAIMS

if TYPE_CHECKING:
    from controller.devcluster.nodes.component_context import ComponentContext
    from controller.devcluster.nodes.pods import KubeletPod
    from controller.devcluster.nodes.views import (
        ControlledStatefulSet,
        ReportedStatefulSetStatus,
    )

_BY_SET = "stateful set uid"


class StatefulSetController(LoopComponent[str]):
    """Creates, replaces and deletes the pods of StatefulSets, and writes their statuses."""

    def __init__(self, context: ComponentContext) -> None:
        self._client = context.client
        super().__init__("statefulsets", context)
        sets = context.caches.informer(STATEFUL_SETS)
        sets.add_handler(Enqueue(self._loop.add, _key), name="statefulsets")
        self._sets = sets.lister
        pods = context.caches.informer(PODS)
        pods.add_index(_BY_SET, _set_uid)
        pods.add_handler(Enqueue(self._loop.add, _set_key), name="statefulsets")
        self._pods = pods.lister

    async def _sync(self, key: str) -> None:
        stateful_set = self._sets.get(key)
        if stateful_set is None or stateful_set.metadata.terminating:
            return
        pods = self._pods.by_index(_BY_SET, stateful_set.metadata.uid)
        plan = plan_stateful_set(stateful_set, pods)
        try:
            for pod in plan.deletes:
                await delete_seen(self._client, PODS, pod)
            for number in plan.creates:
                await self._create(stateful_set, number)
            await self._report(stateful_set, plan.status)
        except (NotFound, Conflict):
            return  # the cache is behind: the next event enqueues the set again

    async def _create(self, stateful_set: ControlledStatefulSet, number: int) -> None:
        """Create a pod and its claims; one that exists already is seen soon."""
        namespace = stateful_set.metadata.namespace
        for claim in claim_bodies(stateful_set, number).values():
            with suppress(AlreadyExists):
                await self._client.create(CLAIMS, namespace, claim)
        with suppress(AlreadyExists):
            await self._client.create(PODS, namespace, pod_body(stateful_set, number))

    async def _report(
        self, stateful_set: ControlledStatefulSet, status: ReportedStatefulSetStatus
    ) -> None:
        change = status_patch(stateful_set.status, status)
        if not change:
            return
        meta = stateful_set.metadata
        patch = {
            "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
            "status": change,
        }
        await self._client.merge_patch(
            STATEFUL_SETS, meta.namespace, meta.name, patch, subresource="status"
        )


def _key(stateful_set: ControlledStatefulSet) -> tuple[str]:
    return (stateful_set.metadata.key,)


def _set_uid(pod: KubeletPod) -> tuple[str, ...]:
    owner = pod.metadata.controller
    return (owner.uid,) if owner and owner.kind == STATEFUL_SETS.kind else ()


def _set_key(pod: KubeletPod) -> tuple[str, ...]:
    owner = pod.metadata.controller
    if not owner or owner.kind != STATEFUL_SETS.kind:
        return ()
    return (f"{pod.metadata.namespace}/{owner.name}",)
