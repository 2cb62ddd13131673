"""The Job controller for batch/v1 Jobs without indexes.

Pods that have failed stay counted after they are gone, and so do pods that others delete before
they end, as upstream. Without tracking finalizers this process must have seen them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controller.devcluster.nodes.components.deletion import delete_seen
from controller.devcluster.nodes.components.suffixes import suffix
from controller.devcluster.nodes.objects.pods import PODS, PodPhase
from controller.devcluster.nodes.objects.views import JOBS, ControlledJob
from controller.devcluster.nodes.workloads.job_plan import plan_job
from controller.devcluster.nodes.workloads.workload_controller import WorkloadController, pod_body

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from controller.devcluster.nodes.components.component_context import ComponentContext
    from controller.devcluster.nodes.objects.pods import KubeletPod

_NAME_LIMIT = 63


class JobController(WorkloadController[ControlledJob]):
    """Creates and deletes the pods of Jobs, and writes the Jobs' statuses."""

    def __init__(self, context: ComponentContext) -> None:
        super().__init__(JOBS, context)
        self._settings = context.settings
        self._failures: dict[str, set[str]] = {}  # uids of pods by the uid of their Job
        self._deleted: set[str] = set()  # uids of the pods that this controller has deleted

    async def _reconcile(self, job: ControlledJob, pods: Sequence[KubeletPod], /) -> float | None:
        failures = self._failures.setdefault(job.metadata.uid, set())
        failures |= {pod.metadata.uid for pod in pods if self._has_failed(pod)}
        plan = plan_job(job, pods, self._settings, self._wall(), failures=len(failures))
        if plan.expired:
            await self._expire(job)
            return None
        for pod in plan.deletes:
            self._deleted.add(pod.metadata.uid)
            await delete_seen(self._client, PODS, pod)
        for name in self._free_names(job, plan.creates):
            await self._create_pod(job, _pod_body(job, name), "Error creating: ")
        await self._report(job, plan.status)
        return plan.requeue_after

    def _has_failed(self, pod: KubeletPod) -> bool:
        if pod.metadata.uid in self._deleted:
            return False
        return pod.status.phase == PodPhase.FAILED or (
            pod.metadata.terminating and not pod.is_finished
        )

    def _free_names(self, job: ControlledJob, count: int) -> Iterator[str]:
        """Yield the free pod names in order; the same state yields the same names."""
        meta, number = job.metadata, 0
        while count > 0:
            tail = f"-{suffix(meta.uid, str(number))}"
            name = meta.name[: _NAME_LIMIT - len(tail)] + tail
            number += 1
            if self._pods.get(f"{meta.namespace}/{name}") is None:
                count -= 1
                yield name

    async def _expire(self, job: ControlledJob) -> None:
        meta = job.metadata
        await self._client.delete(
            JOBS, meta.namespace, meta.name, uid=meta.uid, propagation="Foreground"
        )


def _pod_body(job: ControlledJob, name: str) -> dict[str, Any]:
    meta = job.metadata
    labels = {
        "batch.kubernetes.io/controller-uid": meta.uid,
        "batch.kubernetes.io/job-name": meta.name,
        "controller-uid": meta.uid,
        "job-name": meta.name,
    }
    spec: dict[str, Any] = job.spec.template.get("spec") or {}
    return pod_body(JOBS, job, name=name, labels=labels, spec=spec)
