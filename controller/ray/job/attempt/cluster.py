"""The RayCluster that an attempt runs on."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.ownership import owner_reference
from controller.ray.api import labels
from controller.ray.api.raycluster import RAYCLUSTERS
from controller.ray.api.rayjob import RAYJOBS, SubmissionMode
from controller.ray.job.submitter.sidecar import with_sidecar

if TYPE_CHECKING:
    from controller.ray.api.rayjob import JobSpec, RayJob
    from controller.ray.job.settings import JobSettings

Body = dict[str, Any]

_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""Annotation of `kubectl apply`; copied to the RayCluster it would describe the wrong object."""


def cluster_body(job: RayJob, spec: JobSpec, name: str, job_id: str, settings: JobSettings) -> Body:
    """The RayCluster to create.

    Args:
        job: the RayJob that will own it.
        spec: its valid specification, with a cluster of its own.
        name: of the cluster.
        job_id: submission id of the attempt; SidecarMode needs it.
        settings: of the RayJob controller.
    """
    meta, mode = job.metadata, spec.submission_mode
    annotations = {
        name: value
        for name, value in (meta.annotations or {}).items()
        if name != _LAST_APPLIED and not name.startswith(labels.OWN_PREFIX)
    }
    if mode is SubmissionMode.SIDECAR:
        annotations[labels.DISABLE_HEAD_RESTART] = "true"
        cluster_spec = with_sidecar(spec, name, job_id, settings)
    else:
        cluster_spec = copy.deepcopy(spec.ray_cluster_spec or {})
    own = {
        labels.ORIGIN_NAME: meta.name,
        labels.ORIGIN_KIND: RAYJOBS.kind,
        labels.SUBMISSION_MODE: mode.value,
    }
    return {
        "apiVersion": RAYCLUSTERS.api_version,
        "kind": RAYCLUSTERS.kind,
        "metadata": {
            "name": name,
            "namespace": meta.namespace,
            "labels": (meta.labels or {}) | own,
            **({"annotations": annotations} if annotations else {}),
            "ownerReferences": [owner_reference(RAYJOBS, meta)],
        },
        "spec": cluster_spec,
    }
