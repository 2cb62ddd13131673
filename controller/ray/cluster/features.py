"""Names the features of a RayCluster that this version of Manta does not implement yet.

Such fields are accepted and named in a condition, so that users learn of them. Fields that protect
the cluster are refused instead (`validation/protection.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from controller.ray.api.raycluster import ClusterSpec, RayCluster

_SCHEDULER_LABELS: Final = (
    "ray.io/gang-scheduling-enabled",
    "ray.io/priority-class-name",
    "kai.scheduler/queue",
    "volcano.sh/network-topology-highest-tier-allowed",
    "volcano.sh/network-topology-mode",
    "volcano.sh/queue-name",
    "yunikorn.apache.org/app-id",
    "yunikorn.apache.org/queue",
)
"""Labels of the RayCluster that ask for a batch scheduler.

Those of pod templates are copied to the pods, where the schedulers themselves read them.
"""


def unsupported_fields(cluster: RayCluster, spec: ClusterSpec) -> tuple[str, ...]:
    """Return the paths of the fields without effect, those of the specification first."""
    given = cluster.metadata.labels or {}
    asked = {"spec.historyServerOptions": spec.history_server_options is not None}
    asked |= {f"metadata.labels[{label}]": label in given for label in _SCHEDULER_LABELS}
    return tuple(path for path, is_asked in asked.items() if is_asked)
