"""The RayJob kind: pure functions from observations to plans.

`kind.py` registers it and has its metrics; `observe.py` gathers an `observation.py`;
`collect_facts.py` makes it `facts.py`; **`table.py` decides the next state, and whether a failed
attempt is retried**; `plan.py` gives each state its writes.

- an attempt: `attempt.py` (its cluster and submission), `submitter.py`, `dashboard.py` (what Ray is
  asked, and the stop)
- the end: `cleanup.py` (what is deleted, and when)
- status: `status.py`, `readiness.py` (first causes, and why an attempt failed)
"""

from __future__ import annotations

from controller.ray.job.kind import JobCollector, RayJobKind

__all__ = ["JobCollector", "RayJobKind"]
