"""The conditions of a RayJob, which KubeRay does not have.

`Ready` reports the present and names the first cause. `Retried` reports the last retry and is
never removed. `DashboardReachable` is present only while the dashboard cannot be reached. KubeRay's
CRD drops conditions: transitions set them, and they are updated only if the server kept them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.conditions import remove_condition, set_condition

if TYPE_CHECKING:
    from datetime import datetime

    from controller.ray.job.observation import JobObservation
    from controller.ray.job.status.readiness import JobReadiness

READY: Final = "Ready"
RETRIED: Final = "Retried"
DASHBOARD_REACHABLE: Final = "DashboardReachable"
CLEANED_UP: Final = "CleanedUp"
CLUSTER_AS_SPECIFIED: Final = "ClusterAsSpecified"

_LONGEST_MESSAGE: Final = 4096


class JobConditions:
    """The conditions of one RayJob on their way from what they are to what they should be."""

    def __init__(self, seen: JobObservation, now: datetime) -> None:
        self._conditions: list[dict[str, Any]] = list(seen.status.get("conditions", ()))
        self._generation = seen.job.metadata.generation
        self._now = now

    def as_list(self) -> list[dict[str, Any]]:
        """The conditions for `status.conditions`."""
        return self._conditions

    def set_ready(self, cause: JobReadiness) -> None:
        """Whether the job is where it should be, and if not, why."""
        self._set(READY, cause.status, cause.reason, cause.message)

    def set_retried(self, reason: str, message: str) -> None:
        """The last attempt that was followed by another one, and why."""
        self._set(RETRIED, "True", reason, message)

    def set_dashboard(self, unreachable: str) -> None:
        """Since when the dashboard does not answer; empty if it does, or nobody asks it."""
        if unreachable:
            self._set(DASHBOARD_REACHABLE, "False", "Unreachable", unreachable)
        else:
            self._conditions = remove_condition(self._conditions, DASHBOARD_REACHABLE)

    def set_outdated(self, *, outdated: bool) -> None:
        """Whether `spec.rayClusterSpec` was changed after the cluster had been made."""
        if outdated:
            message = (
                "spec.rayClusterSpec was changed; the next attempt's cluster is created from it"
            )
            self._set(CLUSTER_AS_SPECIFIED, "False", "SpecChanged", message)
        else:
            self._conditions = remove_condition(self._conditions, CLUSTER_AS_SPECIFIED)

    def set_cleanup(self, reason: str, failure: str) -> None:
        """What keeps the rules of deletion from being carried out; empty if nothing does."""
        if failure:
            self._set(CLEANED_UP, "False", reason, failure)
        else:
            self._conditions = remove_condition(self._conditions, CLEANED_UP)

    def _set(self, kind: str, status: Any, reason: str, message: str) -> None:
        self._conditions = set_condition(
            self._conditions,
            kind,
            status,
            reason,
            message[:_LONGEST_MESSAGE],
            self._generation,
            self._now,
        )
