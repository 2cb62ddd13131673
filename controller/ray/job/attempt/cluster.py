"""The RayCluster that an attempt runs on."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from controller.ray.api import labels
from controller.ray.api.rayjob import RAYJOBS, SubmissionMode
from controller.ray.children.child_cluster import child_cluster
from controller.ray.job.submitter.sidecar import with_sidecar

if TYPE_CHECKING:
    from controller.ray.api.rayjob import JobSpec, RayJob
    from controller.ray.job.settings import JobSettings

Body = dict[str, Any]


def cluster_body(job: RayJob, spec: JobSpec, name: str, job_id: str, settings: JobSettings) -> Body:
    """Return the RayCluster to create.

    Args:
        job: the RayJob that will own it.
        spec: its valid specification, with a cluster of its own.
        name: name of the cluster.
        job_id: submission id of the attempt; SidecarMode needs it.
        settings: settings of the RayJob controller.
    """
    mode, annotations = spec.submission_mode, dict[str, str]()
    if mode is SubmissionMode.SIDECAR:
        annotations[labels.DISABLE_HEAD_RESTART] = "true"
        cluster_spec = with_sidecar(spec, name, job_id, settings)
    else:
        cluster_spec = copy.deepcopy(spec.ray_cluster_spec or {})
    return child_cluster(
        RAYJOBS,
        job.metadata,
        name,
        cluster_spec,
        own_labels={labels.SUBMISSION_MODE: mode.value},
        own_annotations=annotations,
    )
