"""Changes of `spec.rayClusterSpec` reach the next attempt only, and that is said (KubeRay: logged).

What the cluster was made from is remembered on it as a digest, because the cluster itself is
changed by others: defaults, the autoscaler, deletion rules.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import msgspec

from controller.apimachinery.problem import Problem
from controller.ray.api import labels

if TYPE_CHECKING:
    from controller.ray.api.rayjob import JobSpec
    from controller.ray.job.observation import JobObservation


def digest_of(spec: JobSpec) -> str:
    """Sixteen hexadecimal digits that stand for the specification of the cluster."""
    text = msgspec.json.encode(spec.ray_cluster_spec, order="sorted")
    return hashlib.sha256(text).hexdigest()[:16]


def is_outdated(seen: JobObservation) -> bool:
    """Whether the attempt's cluster was made from another specification than there is now."""
    if seen.cluster is None or not seen.owns_cluster or isinstance(seen.spec, Problem):
        return False
    made_from = (seen.cluster.metadata.annotations or {}).get(labels.MADE_FROM)
    return made_from is not None and made_from != digest_of(seen.spec)
