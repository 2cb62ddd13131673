"""Why a cluster is not ready: of all that is wrong, what a person should look at first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controller.kube.resources import PODS
from controller.ray.cluster.conditions import SUSPENDED, is_true
from controller.ray.cluster.identity import HEAD_SCOPE
from controller.ray.cluster.pod_state import trouble
from controller.runtime.plan import Create, Delete

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controller.ray.cluster.observe import Design, Observation
    from controller.runtime.plan import Failure, Write


@dataclass(frozen=True, slots=True)
class Cause:
    """A reason in CamelCase and a sentence."""

    reason: str
    message: str


def first_cause(seen: Observation, design: Design, failures: tuple[Failure, ...]) -> Cause | None:
    """The first cause, or None if the cluster is as it should be."""
    return (
        _failed_write(failures)
        or _name_taken(seen)
        or _suspension(seen, design)
        or _pod_in_trouble(seen)
        or _pods_missing(seen, design)
    )


def replica_failure(failures: tuple[Failure, ...]) -> Cause | None:
    """The first pod that could not be made or deleted, under KubeRay's reason."""
    for failure in _known(failures):
        if failure.write.target.resource is PODS:
            return Cause(_marker(failure.write), _sentence(failure))
    return None


def _failed_write(failures: tuple[Failure, ...]) -> Cause | None:
    for failure in _known(failures):
        return Cause(_marker(failure.write), _sentence(failure))
    for failure in failures:
        return Cause("OutcomeUnknown", _sentence(failure))
    return None


def _known(failures: Iterable[Failure]) -> Iterable[Failure]:
    return (failure for failure in failures if not failure.unknown)


def _marker(write: Write) -> str:
    verb = _verb(write)
    if write.target.resource is not PODS:
        return f"Failed{verb}{write.target.resource.kind}"
    role = "HeadPod" if write.target.scope == HEAD_SCOPE else "WorkerPod"
    return f"Failed{verb}{role}"


def _sentence(failure: Failure) -> str:
    write = failure.write
    what = f"{write.target.resource.kind} {write.target.name}"
    return f"cannot {_verb(write).lower()} {what}: {failure.reason}: {failure.message}"


def _verb(write: Write) -> str:
    match write:
        case Create():
            return "Create"
        case Delete():
            return "Delete"
        case _:
            return "Update"


def _name_taken(seen: Observation) -> Cause | None:
    if seen.unreadable:
        return Cause("PodUnreadable", f"{seen.unreadable[0]}; nothing is made until it is gone")
    if seen.fixed.blocked:
        return Cause("NameTaken", f"{seen.fixed.blocked[0]}; waiting until it is gone")
    if not seen.heads and seen.foreign_heads:
        message = f"{seen.foreign_heads[0]}; the head is not made before that pod is gone"
        return Cause("ForeignHead", message)
    return None


def _suspension(seen: Observation, design: Design) -> Cause | None:
    if design.spec.suspend:
        return Cause("Suspended", "spec.suspend is true: the cluster has no pods")
    if design.spec.suspend is None and is_true(seen.conditions, SUSPENDED):
        return Cause("Suspended", "the cluster was suspended; set spec.suspend to false to resume")
    return None


def _pod_in_trouble(seen: Observation) -> Cause | None:
    worst = min(filter(None, map(trouble, seen.all_pods)), default=None)
    if worst is None:
        return None
    return Cause(worst.reason, f"pod {worst.pod} {worst.message}")


def _pods_missing(seen: Observation, design: Design) -> Cause | None:
    wanted = [("head", 1, seen.heads)]
    for group in design.spec.worker_group_specs:
        name = group.group_name
        wanted.append((f"group {name}", group.desired_pods, seen.workers.get(name, ())))
    for name, desired, pods in wanted:
        going = sum(pod.metadata.terminating for pod in pods)
        present = len(pods) - going
        if present < desired:
            wait = f"; {going} are still being deleted" if going else ""
            return Cause("PodsMissing", f"{name}: {present} of {desired} pods exist{wait}")
    return None
