"""The conditions of a RayJob, which KubeRay does not have.

`Ready` reports the present and names the first cause. `Retried` reports the last retry and is
never removed. `DashboardReachable` is present only while the dashboard cannot be reached. KubeRay's
CRD drops conditions: transitions set them, and they are updated only if the server kept them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.apimachinery.conditions import READY, ConditionSet
from controller.ray.job.attempt.unconfirmed_stop import JOB_STOPPED, STOP_NOT_CONFIRMED

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from controller.ray.job.observation import JobObservation
    from controller.ray.job.status.readiness import JobReadiness

RETRIED: Final = "Retried"
DASHBOARD_REACHABLE: Final = "DashboardReachable"
CLEANED_UP: Final = "CleanedUp"
CLUSTER_AS_SPECIFIED: Final = "ClusterAsSpecified"
DELETION_RULES_MATCH: Final = "DeletionRulesMatch"
NO_RULE_MATCHES: Final = "NoRuleMatches"
JOB_AS_SPECIFIED: Final = "JobAsSpecified"


class JobConditions(ConditionSet):
    """The conditions of a RayJob, each set by its own rule."""

    def __init__(self, seen: JobObservation, now: datetime) -> None:
        super().__init__(seen.status.get("conditions", ()), seen.job.metadata.generation, now)

    def set_ready(self, cause: JobReadiness) -> None:
        """Set the condition `Ready`: True if the job is in its intended state, else the cause."""
        self.set(READY, cause.status, cause.reason, cause.message)

    def set_retried(self, reason: str, message: str) -> None:
        """Report the last attempt that was followed by another one, and why it failed."""
        self.set(RETRIED, "True", reason, message)

    def set_dashboard(self, unreachable: str) -> None:
        """Report since when the dashboard does not answer; remove it if it does or is not asked."""
        self.set_if(DASHBOARD_REACHABLE, "False", "Unreachable", unreachable)

    def set_outdated(self, *, outdated: bool) -> None:
        """Set the condition about a `spec.rayClusterSpec` edited after the cluster was created."""
        words = "spec.rayClusterSpec was changed; the next attempt's cluster is created from it"
        self.set_if(CLUSTER_AS_SPECIFIED, "False", "SpecChanged", words if outdated else "")

    def set_changed(self, fields: Sequence[str], *, ended: bool) -> None:
        """Set the condition about fields that were changed after the job had been submitted."""
        words = ""
        if fields:
            names = ", ".join(f"spec.{name}" for name in fields)
            outlook = "the job runs as it was submitted, and only another attempt would differ"
            if ended:
                outlook = "a job that has ended does not run again: create a RayJob of another name"
            words = f"changed after the job had been submitted: {names}; {outlook}"
        self.set_if(JOB_AS_SPECIFIED, "False", "SpecChanged", words)

    def set_stopped(self, unconfirmed: str) -> None:
        """Report a job that may still run although nobody follows it; remove it once it ended."""
        self.set_if(JOB_STOPPED, "False", STOP_NOT_CONFIRMED, unconfirmed)

    def set_rules_match(self, unmatched: str) -> None:
        """Report an end of the job about which the rules of deletion say nothing."""
        self.set_if(DELETION_RULES_MATCH, "False", NO_RULE_MATCHES, unmatched)

    def set_cleanup(self, reason: str, failure: str) -> None:
        """Set the condition about what blocks the rules of deletion; empty if nothing does."""
        self.set_if(CLEANED_UP, "False", reason, failure)
