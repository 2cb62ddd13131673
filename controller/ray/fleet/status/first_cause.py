"""The first cause that a fleet, or its upgrade, is not as wanted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controller.apimachinery.problem import Problem
from controller.ray.diagnosis.writes import failure_cause

if TYPE_CHECKING:
    from controller.ray.fleet.observation import FleetObservation
    from controller.runtime.plan import Failure

_NOT_READY: Final = "ClustersNotReady"


@dataclass(frozen=True, slots=True)
class FirstCause:
    """A cause that keeps a fleet from being as wanted.

    Attributes:
        message: a sentence; empty if all is well.
        reason: of the condition `Ready`, if the fleet is not ready because of it.
        event: reason of the Warning event about it; empty if it deserves none.
    """

    message: str = ""
    reason: str = _NOT_READY
    event: str = ""


def first_cause(seen: FleetObservation, failures: tuple[Failure, ...]) -> FirstCause:
    """The first cause: what is wrong with the fleet, with a write, then with a copy."""
    if isinstance(seen.goal, Problem):
        return FirstCause(str(seen.goal), seen.goal.reason, seen.goal.reason)
    for failure in failures:
        if not failure.may_resolve:
            found = failure_cause(failure, has_head=True)
            return FirstCause(found.message, found.reason.name, found.event)
    for name, error in seen.create_errors:
        message = f"RayCluster {name} cannot be created: {error.message}"
        return FirstCause(message, event="FailedToCreateRayCluster")
    return _of_names(seen) or _of_copies(seen)


def _of_names(seen: FleetObservation) -> FirstCause | None:
    for name, conflict in seen.name_conflicts.items():
        message = (
            f"RayCluster {name} cannot be created, because there is one of this name that "
            f"{conflict}: delete it"
        )
        return FirstCause(message, "NameTaken", "FailedToCreateRayCluster")
    for name, reason in seen.unreadable.items():
        message = f"no copy is created or deleted while RayCluster {name} cannot be read: {reason}"
        return FirstCause(message, "UnreadableCopy", "UnreadableCopy")
    return None


def _of_copies(seen: FleetObservation) -> FirstCause:
    """The first copy that is not as it should be: those of the present template first."""
    waiting = [copy for copy in seen.wanted if copy.stays and not seen.is_available(copy)]
    for copy in sorted(waiting, key=lambda copy: not copy.up_to_date):
        return FirstCause(f"RayCluster {copy.name} is not ready: {copy.message}")
    present = {copy.index for copy in seen.wanted if copy.stays}
    for copy in seen.copies:
        if not copy.stays and (copy.index not in present or copy.index >= seen.desired):
            return FirstCause(f"RayCluster {copy.name} is being deleted")
    missing = [index for index in range(seen.desired) if index not in present]
    return FirstCause(f"copy {missing[0]} is being created") if missing else FirstCause()
