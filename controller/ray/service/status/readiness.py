"""The first cause that keeps a RayService from serving, or an upgrade from going on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controller.apimachinery.conditions import READY, find_condition
from controller.apimachinery.custom_object import conditions_of
from controller.apimachinery.problem import Problem
from controller.apimachinery.timestamps import rfc3339
from controller.ray.diagnosis.writes import failure_cause
from controller.ray.service.rollout.steps import Wait
from controller.ray.service.rollout.transitions import next_step
from controller.ray.service.serving.commands import refusal
from controller.ray.service.status.facts import collect_facts, readiness_of

if TYPE_CHECKING:
    from controller.ray.service.observation import ServiceObservation, ServingCluster
    from controller.ray.service.settings import ServiceSettings
    from controller.runtime.reconcile.plan import Failure


@dataclass(frozen=True, slots=True)
class Cause:
    """Why something is not as it should be.

    Attributes:
        message: a sentence; empty if all is well.
        event: reason of the Warning event about it; empty if it deserves none.
    """

    message: str = ""
    event: str = ""


def first_cause(
    seen: ServiceObservation, settings: ServiceSettings, failures: tuple[Failure, ...]
) -> Cause:
    """The first cause; failed writes come before all others."""
    if isinstance(seen.goal, Problem):
        return Cause(str(seen.goal), seen.goal.reason)
    for failure in failures:
        if not failure.may_resolve:
            found = failure_cause(failure, has_head=True)
            return Cause(found.message, found.event)
    for name, error in seen.create_errors:
        return Cause(
            f"cluster {name} cannot be created: {error.message}", "FailedToCreateRayCluster"
        )
    cluster = seen.pending or seen.active
    if cluster is None:
        return Cause("a cluster is being prepared")
    return _of_cluster(seen, cluster) or _of_rollout(seen, settings)


def _of_cluster(  # noqa: PLR0911  one for each cause
    seen: ServiceObservation, cluster: ServingCluster
) -> Cause | None:
    if cluster.foreign:
        message = f"RayCluster {cluster.name} belongs to another owner; delete it"
        return Cause(message, "FailedToCreateRayCluster")
    if cluster.cluster is None:
        return Cause(f"cluster {cluster.name} is being created")
    if cluster.config_problem:
        return Cause(cluster.config_problem, "FailedToUpdateServeApplications")
    if cluster.head is None:
        ready = find_condition(conditions_of(cluster.cluster), READY) or {}
        return Cause(f"cluster {cluster.name}: {ready.get('message') or 'it has no head yet'}")
    if refused := refusal(cluster):
        message = f"Ray refuses the config of cluster {cluster.name}: {refused}"
        return Cause(message, "FailedToUpdateServeApplications")
    answer = cluster.answer
    if answer is not None and answer.failing_since is not None:
        since = rfc3339(answer.failing_since)
        return Cause(f"{cluster.head.dashboard} has not answered since {since}: {answer.error}")
    if cluster.config is None:
        message = "has no stored config yet: it is read from what Ray reports as deployed"
        return Cause(f"cluster {cluster.name} {message}")
    readiness = readiness_of(seen, cluster)
    if readiness is None:
        return Cause(f"Serve of cluster {cluster.name} has not reported yet")
    if readiness.first_cause:
        return Cause(f"cluster {cluster.name}: {readiness.first_cause}")
    return None


def _of_rollout(seen: ServiceObservation, settings: ServiceSettings) -> Cause:
    step = next_step(collect_facts(seen, settings))
    if isinstance(step, Wait) and step is not Wait.NOTHING:
        return Cause(f"waits for {step.value}")
    return Cause()
