"""`manta rollout`: watches, pauses, resumes and undoes rolling updates, as `kubectl rollout`."""

from __future__ import annotations

from controller.command.rollout.run import RolloutOptions, rollout

__all__ = ["RolloutOptions", "rollout"]
