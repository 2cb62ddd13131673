"""Detects changes of `spec.rayClusterSpec`, which reach the next attempt only.

A condition reports them; KubeRay only logs them. The cluster carries a digest of its source,
because defaults, the autoscaler and deletion rules change its specification.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import msgspec

from controller.ray.api import labels
from controller.ray.pods.hashes.template_hash import digest

if TYPE_CHECKING:
    from controller.ray.api.rayjob import JobSpec
    from controller.ray.job.observation import JobObservation


def digest_of(spec: JobSpec) -> str:
    """Return a digest of the cluster's specification."""
    return digest(spec.ray_cluster_spec)


def is_outdated(seen: JobObservation) -> bool:
    """Return whether the attempt's cluster was created from another specification."""
    if seen.cluster is None or not seen.owns_cluster:
        return False
    created_from = (seen.cluster.metadata.annotations or {}).get(labels.MADE_FROM)
    if created_from is None or created_from == digest_of(seen.spec):
        return False
    return created_from != _former_digest(seen.spec)


def _former_digest(spec: JobSpec) -> str:
    """Return what earlier versions of the operator stored; every list counted as written."""
    text = msgspec.json.encode(spec.ray_cluster_spec, order="sorted")
    return hashlib.sha256(text).hexdigest()[:16]
