"""Detects changes of `spec.rayClusterSpec`, which reach the next attempt only.

A condition reports them; KubeRay only logs them. The cluster carries a digest of its source,
because defaults, the autoscaler and deletion rules change its specification.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import msgspec

from controller.ray.api import labels

if TYPE_CHECKING:
    from controller.ray.api.rayjob import JobSpec
    from controller.ray.job.observation import JobObservation


def digest_of(spec: JobSpec) -> str:
    """Return a digest of the cluster's specification: sixteen hexadecimal digits."""
    text = msgspec.json.encode(spec.ray_cluster_spec, order="sorted")
    return hashlib.sha256(text).hexdigest()[:16]


def is_outdated(seen: JobObservation) -> bool:
    """Return whether the attempt's cluster was created from another specification."""
    if seen.cluster is None or not seen.owns_cluster:
        return False
    created_from = (seen.cluster.metadata.annotations or {}).get(labels.MADE_FROM)
    return created_from is not None and created_from != digest_of(seen.spec)
