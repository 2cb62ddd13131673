"""Which RayJobs look at which RayCluster: so that its events, and its head's, wake them.

Owner references do not tell: a job may run on a cluster of somebody else, and a head belongs to
the cluster. A wrong entry costs a look, nothing more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.ray.api import labels
from controller.ray.cluster.observe import head_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controller.kube.objects import KubeObject, Pod


class Followers:
    """Remembers for each RayJob the one cluster that it looked at last."""

    def __init__(self) -> None:
        self._cluster_of: dict[str, str] = {}
        self._jobs_of: dict[str, dict[str, None]] = {}

    def follow(self, job: str, cluster: str) -> None:
        """From now on the job looks at this cluster, at none if empty. Both are keys."""
        before = self._cluster_of.get(job, "")
        if before == cluster:
            return
        if before:
            jobs = self._jobs_of[before]
            del jobs[job], self._cluster_of[job]
            if not jobs:
                del self._jobs_of[before]
        if cluster:
            self._cluster_of[job] = cluster
            self._jobs_of.setdefault(cluster, {})[job] = None

    def of_cluster(self, cluster: KubeObject) -> Sequence[str]:
        """The jobs that look at this cluster."""
        return tuple(self._jobs_of.get(cluster.metadata.key, ()))

    def of_pod(self, pod: Pod) -> Sequence[str]:
        """The jobs that look at the cluster of this head; of a submitter's pod, its job."""
        jobs = [job for key in head_keys(pod) for job in self._jobs_of.get(key, ())]
        return (*jobs, *submitter_keys(pod))


def submitter_keys(pod: Pod) -> Sequence[str]:
    """Index function: the RayJob whose submitter this pod is."""
    found = pod.metadata.labels or {}
    job = found.get(labels.ORIGIN_NAME)
    is_submitter = found.get(labels.NODE_TYPE) == labels.SUBMITTER
    return (f"{pod.metadata.namespace}/{job}",) if job and is_submitter else ()
