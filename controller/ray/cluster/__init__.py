"""The RayCluster kind: pure functions that decide what a cluster should consist of.

`kind.py` registers it and has its metrics; `observe.py` gathers an `observation.py`; `plan.py`
decides, on one page.

- pods: `head_and_workers.py` (which are missing or surplus), `scale_down.py` (which go first);
  `pods.py` (roles, losses, healing); `held_deletions.py` (which deletions nothing explains)
- other objects: `child_table.py` (which there are, and their repair), `children.py` (their bodies),
  `network_policy.py` (theirs, and what hinders them), `certificates.py` (those of mTLS, who waits
  for them, and what ends)
- upgrades: `upgrade.py` (the strategy, and earlier templates), `rolling.py` (the decision),
  `rolling_units.py` (what is replaced), `rollout.py` (its values, and what Ray says of its nodes)
- disruptions: `disruptions.py` (workers that others take away, drained before their end, and the
  budgets that refuse evictions)
- idle clusters: `idle.py` (since when nobody uses one, and its end)
- deletion: `deletion.py` (its steps), `redis_cleanup.py`
- status: `status.py`, `conditions.py`, `first_cause.py` (why it is not ready)
"""

from __future__ import annotations

from controller.ray.cluster.kind import CertificateCollector, ClusterCollector, RayClusterKind

__all__ = ["CertificateCollector", "ClusterCollector", "RayClusterKind"]
