"""The Job controller for batch/v1 Jobs without indexes.

Pods that finish and are deleted before the Job ends stay counted, but only as many as were
counted at the same time: there are no tracking finalizers.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from controller.devcluster.nodes.component_context import LoopComponent
from controller.devcluster.nodes.control import Enqueue
from controller.devcluster.nodes.deletion import delete_seen
from controller.devcluster.nodes.job_plan import plan_job
from controller.devcluster.nodes.pods import PODS
from controller.devcluster.nodes.statuses import status_patch
from controller.devcluster.nodes.suffixes import suffix
from controller.devcluster.nodes.views import JOBS
from controller.kube.errors import Conflict, NotFound

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.devcluster.nodes.component_context import ComponentContext
    from controller.devcluster.nodes.pods import KubeletPod
    from controller.devcluster.nodes.views import ControlledJob, ReportedJobStatus
    from controller.kube.objects import KubeObject

_BY_JOB = "job uid"
_NAME_LIMIT = 63


class JobController(LoopComponent[str]):
    """Creates and deletes the pods of Jobs, and writes the Jobs' statuses."""

    def __init__(self, context: ComponentContext) -> None:
        self._client = context.client
        self._settings = context.settings
        self._wall = context.wall
        super().__init__("jobs", context)
        caches = context.caches
        jobs = caches.informer(JOBS)
        jobs.add_handler(Enqueue(self._loop.add, _key), name="jobs")
        self._jobs = jobs.lister
        pods = caches.informer(PODS)
        pods.add_index(_BY_JOB, _job_uid)
        pods.add_handler(Enqueue(self._loop.add, _job_key), name="jobs")
        self._pods = pods.lister

    async def _sync(self, key: str) -> float | None:
        job = self._jobs.get(key)
        if job is None or job.metadata.terminating:
            return None
        pods = self._pods.by_index(_BY_JOB, job.metadata.uid)
        plan = plan_job(job, pods, self._settings, self._wall())
        try:
            if plan.expired:
                await self._expire(job)
                return None
            for pod in plan.deletes:
                await delete_seen(self._client, PODS, pod)
            for name in self._free_names(job, plan.creates):
                await self._client.create(PODS, job.metadata.namespace, _pod_body(job, name))
            await self._report(job, plan.status)
        except (NotFound, Conflict):
            return None  # the cache is behind: the next event enqueues the job again
        return plan.requeue_after

    def _free_names(self, job: ControlledJob, count: int) -> Iterator[str]:
        """The first free pod names; the same state yields the same names."""
        meta, number = job.metadata, 0
        while count > 0:
            tail = f"-{suffix(meta.uid, str(number))}"
            name = meta.name[: _NAME_LIMIT - len(tail)] + tail
            number += 1
            if self._pods.get(f"{meta.namespace}/{name}") is None:
                count -= 1
                yield name

    async def _report(self, job: ControlledJob, status: ReportedJobStatus) -> None:
        change = status_patch(job.status, status)
        if not change:
            return
        meta = job.metadata
        patch = {
            "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
            "status": change,
        }
        await self._client.merge_patch(JOBS, meta.namespace, meta.name, patch, subresource="status")

    async def _expire(self, job: ControlledJob) -> None:
        meta = job.metadata
        await self._client.delete(
            JOBS, meta.namespace, meta.name, uid=meta.uid, propagation="Foreground"
        )


def _pod_body(job: ControlledJob, name: str) -> dict[str, Any]:
    meta, template = job.metadata, copy.deepcopy(job.spec.template)
    template_meta: dict[str, Any] = template.get("metadata") or {}
    labels = {
        "batch.kubernetes.io/controller-uid": meta.uid,
        "batch.kubernetes.io/job-name": meta.name,
        "controller-uid": meta.uid,
        "job-name": meta.name,
    }
    owner = {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "name": meta.name,
        "uid": meta.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": PODS.api_version,
        "kind": PODS.kind,
        "metadata": {
            "name": name,
            "namespace": meta.namespace,
            "labels": {**(template_meta.get("labels") or {}), **labels},
            "annotations": template_meta.get("annotations") or {},
            "finalizers": template_meta.get("finalizers") or [],
            "ownerReferences": [owner],
        },
        "spec": template.get("spec") or {},
    }


def _key(obj: KubeObject) -> tuple[str]:
    return (obj.metadata.key,)


def _job_uid(pod: KubeletPod) -> tuple[str, ...]:
    owner = pod.metadata.controller
    return (owner.uid,) if owner and owner.kind == JOBS.kind else ()


def _job_key(pod: KubeletPod) -> tuple[str, ...]:
    owner = pod.metadata.controller
    if not owner or owner.kind != JOBS.kind:
        return ()
    return (f"{pod.metadata.namespace}/{owner.name}",)
