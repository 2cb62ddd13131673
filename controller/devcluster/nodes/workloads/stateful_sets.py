"""The StatefulSet controller, without history: there are no ControllerRevisions."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from controller.devcluster.nodes.components.deletion import delete_seen
from controller.devcluster.nodes.objects.pods import PODS
from controller.devcluster.nodes.objects.views import STATEFUL_SETS, ControlledStatefulSet
from controller.devcluster.nodes.workloads.stateful_set_bodies import claim_bodies, numbered_pod
from controller.devcluster.nodes.workloads.stateful_set_plan import plan_stateful_set
from controller.devcluster.nodes.workloads.workload_controller import WorkloadController
from controller.kube.errors import AlreadyExists
from controller.kube.resources import CLAIMS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controller.devcluster.nodes.components.component_context import ComponentContext
    from controller.devcluster.nodes.objects.pods import KubeletPod


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
