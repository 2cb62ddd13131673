"""`manta plan`: what the operator would do for a manifest, found by its own planner."""

from __future__ import annotations

from controller.command.planning.plan import Question, plan

__all__ = ["Question", "plan"]
