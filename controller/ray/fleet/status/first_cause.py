"""The first cause for which a fleet, or its upgrade, is not as specified."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controller.apimachinery.problem import Problem
from controller.ray.api.raycluster import RAYCLUSTERS
from controller.ray.diagnosis.writes import failure_cause
from controller.runtime.plan import Target
from controller.runtime.refusals import refused_create

if TYPE_CHECKING:
    from controller.ray.fleet.observation import FleetObservation
    from controller.runtime.plan import Failure

_NOT_READY: Final = "ClustersNotReady"


@dataclass(frozen=True, slots=True)
class FirstCause:
    """A cause for which a fleet is not as specified, or none.

    Attributes:
        message: a sentence; empty if there is no cause.
        reason: reason of the condition `Ready`, if the cause keeps the fleet from being ready.
        event: reason of the Warning event about it; empty for no event.
    """

    message: str = ""
    reason: str = _NOT_READY
    event: str = ""


def first_cause(seen: FleetObservation, failures: tuple[Failure, ...]) -> FirstCause:
    """Return the first cause: a problem of the fleet, then of a write, then of a copy."""
    if isinstance(seen.goal, Problem):
        return FirstCause(str(seen.goal), seen.goal.reason, seen.goal.reason)
    failure = _first_failure(seen, failures)
    if failure is not None:
        found = failure_cause(failure, has_head=True)
        return FirstCause(found.message, found.reason.name, found.event)
    return _of_names(seen) or _of_copies(seen)


def _first_failure(seen: FleetObservation, failures: tuple[Failure, ...]) -> Failure | None:
    """Return a write that has failed just now, or else a copy that was refused earlier."""
    for failure in failures:
        if not failure.may_resolve:
            return failure
    namespace = seen.fleet.metadata.namespace
    for name, error in seen.create_errors:
        return refused_create(Target(RAYCLUSTERS, namespace, name), error)
    return None


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
    """Return the cause of the first copy with a problem, those of the present template first."""
    waiting = [copy for copy in seen.wanted if copy.stays and not seen.is_available(copy)]
    for copy in sorted(waiting, key=lambda copy: not copy.up_to_date):
        state = "suspended yet" if seen.valid_goal.spec.suspended else "ready"
        return FirstCause(f"RayCluster {copy.name} is not {state}: {copy.message}")
    present = {copy.index for copy in seen.wanted if copy.stays}
    for copy in seen.copies:
        if not copy.stays and (copy.index not in present or copy.index >= seen.desired):
            return FirstCause(f"RayCluster {copy.name} is being deleted")
    missing = [index for index in range(seen.desired) if index not in present]
    return FirstCause(f"copy {missing[0]} is being created") if missing else FirstCause()
