"""`manta plan`: shows what the operator would do for a manifest, by running the operator's kinds.

`planner` asks the API server for objects and a dry run of the manifest, `dry_run` reconciles them
in memory and asks the API server about each write, `net_changes` compares before with after, and
`plan` prints that.
"""

from __future__ import annotations

from controller.command.planning.plan import PlanRequest, plan

__all__ = ["PlanRequest", "plan"]
