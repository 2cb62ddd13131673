"""The RayService kind: Serve applications on Ray clusters that are replaced safely.

`kind.py` registers it and has its metrics; `observe.py` gathers an `observation.py`; `facts.py`
reads the facts from it; **`rollout.py` decides the next step of an upgrade or a rollback**;
`plan.py` gives each step its writes.

- clusters: `identity.py` (whose config is whose), `clusters.py`, `closing.py` (how one ends)
- Serve: `serve.py` (when a config is sent), `proxies.py` (which pods get requests)
- traffic: `services.py`, `traffic.py` (the shares of each cluster)
- status: `status.py`, `readiness.py`
"""

from __future__ import annotations

from controller.ray.service.kind import RayServiceKind, ServiceCollector

__all__ = ["RayServiceKind", "ServiceCollector"]
