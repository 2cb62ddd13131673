"""The first cause that keeps a RayService from serving, or an upgrade from advancing."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from controller.apimachinery.conditions import READY, find_condition, rfc3339
from controller.apimachinery.custom_object import conditions_of
from controller.apimachinery.validation import Problem
from controller.ray.api import labels
from controller.ray.api.pod_state import is_ready
from controller.ray.api.rayservice import RAYSERVICES
from controller.ray.children import ChildState
from controller.ray.diagnosis.writes import failure_cause, suspended_by_others
from controller.ray.service.clusters import needs_identity
from controller.ray.service.facts import collect_facts
from controller.ray.service.identity import ConfigTooLarge, store
from controller.ray.service.observation import ServiceObservation, ServingCluster
from controller.ray.service.proxies import accepts_requests, failure_of
from controller.ray.service.rollout import RolloutWait, next_step
from controller.ray.service.serve import readiness_of, refusal, reported_config
from controller.ray.service.traffic import routing_problem, state_text
from controller.runtime.plan import Failure

_ANSWERED: Final = "InternalError"
"""Reason of a failed write that the API server has answered, with an unknown outcome."""


class ServiceCause(Struct, frozen=True):
    """A cause of a problem, or none.

    Attributes:
        message: a sentence; empty if there is no problem.
        event: reason of the Warning event about it; empty for no event.
    """

    message: str = ""
    event: str = ""


def first_cause(seen: ServiceObservation, failures: tuple[Failure, ...]) -> ServiceCause:
    """Return the first cause of a problem of the RayService or its upgrade; failed writes first."""
    general = _general(seen, failures)
    if general is not None:
        return general
    cluster = seen.pending or seen.active
    if cluster is None:
        return ServiceCause("a cluster is being prepared")
    return cause_of_rollout(seen, cluster)


def cause_of_rollout(seen: ServiceObservation, cluster: ServingCluster) -> ServiceCause:
    """Return the first cause for which the cluster does not serve, or what the rollout awaits."""
    return _of_cluster(seen, cluster) or _of_rollout(seen)


def cause_of(seen: ServiceObservation, cluster: ServingCluster) -> ServiceCause:
    """Return the first cause for which one cluster does not serve as it should."""
    return _of_cluster(seen, cluster) or ServiceCause()


def _general(seen: ServiceObservation, failures: tuple[Failure, ...]) -> ServiceCause | None:
    """Return the first cause that does not depend on the clusters."""
    if isinstance(seen.goal, Problem):
        return ServiceCause(str(seen.goal), seen.goal.reason)
    for failure in failures:
        if not failure.may_resolve or failure.reason == _ANSWERED:
            return _of_write(failure)
    for child, observed in seen.children:
        if observed.state is ChildState.OWNER_CONFLICT:
            return ServiceCause(f"{child} {state_text(observed)}", "FailedToCreateService")
    return _of_write(seen.refused_creates[0]) if seen.refused_creates else None


def _of_write(failure: Failure) -> ServiceCause:
    found = failure_cause(failure, has_head=True)
    return ServiceCause(found.message, found.event)


def _of_cluster(seen: ServiceObservation, cluster: ServingCluster) -> ServiceCause | None:
    """Return the first cause of a cluster that does not serve: objects, dashboard, then Serve."""
    wanted = None
    if not isinstance(seen.goal, Problem):
        wanted = seen.goal.spec.ray_cluster_config.get("suspend")  # the clusters follow it
    kind = RAYSERVICES.kind
    if suspended := suspended_by_others(cluster.cluster, kind, asked=wanted is not None):
        return ServiceCause(suspended)
    if wanted is False and cluster is seen.active and cluster.suspended and seen.pending:
        follower = seen.pending.name
        return ServiceCause(f"cluster {cluster.name} stays suspended, as {follower} replaces it")
    return _of_objects(cluster) or _of_dashboard(cluster) or _of_serve(cluster)


def _of_objects(  # noqa: PLR0911  one for each cause
    cluster: ServingCluster,
) -> ServiceCause | None:
    name, taken = cluster.name, "FailedToCreateRayCluster"
    if cluster.orphaned:
        message = (
            f"RayCluster {name} no longer belongs to this RayService, because another client took "
            "its owner reference away; stop that client and delete the cluster"
        )
        return ServiceCause(message, taken)
    if cluster.foreign:
        return ServiceCause(f"RayCluster {name} belongs to another owner; delete it", taken)
    if cluster.cluster is None:
        return ServiceCause(f"cluster {name} is being created")
    if needs_identity(cluster):
        message = (
            f"RayCluster {name} lacks the annotation {labels.MADE_FROM}, without which nothing is "
            "deployed to it: another client or a webhook takes it off; stop that client, or exempt "
            "RayClusters from that webhook"
        )
        return ServiceCause(message)
    if cluster.config_problem:
        message = f"{cluster.config_problem}; remove it, and it is written anew from what Ray has"
        return ServiceCause(message, "FailedToUpdateServeApplications")
    if cluster.head is None or not is_ready(cluster.head.pod):
        return ServiceCause(f"cluster {name}: {_not_ready(cluster) or 'its head is not ready yet'}")
    return None


def _of_dashboard(cluster: ServingCluster) -> ServiceCause | None:
    assert cluster.head is not None
    answer = cluster.answer
    if answer is not None and answer.failing_since is not None:
        since, where = rfc3339(answer.failing_since), cluster.head.dashboard
        message = (
            f"the dashboard of cluster {cluster.name} ({where}) has not answered since {since}: "
            f"{answer.error}; look at the head's log, and whether a network policy is in the way"
        )
        return ServiceCause(message)
    return ServiceCause(_not_stored(cluster)) if cluster.config is None else None


def _not_stored(cluster: ServingCluster) -> str:
    """Return why no config is stored on a cluster that another operator created."""
    name, reported = cluster.name, reported_config(cluster)
    try:
        store(reported or {})
    except ConfigTooLarge as error:
        return f"the config that Ray reports for cluster {name} {error}; nothing is deployed"
    return (
        f"cluster {name} has no stored config yet: it is read from what Ray reports as deployed, "
        "and until then nothing is deployed"
    )


def _of_serve(cluster: ServingCluster) -> ServiceCause | None:
    name, readiness = cluster.name, readiness_of(cluster)
    if refused := refusal(cluster):
        message = f"Ray refuses the config of cluster {name}: {refused}; correct spec.serveConfigV2"
        return ServiceCause(message, "FailedToUpdateServeApplications")
    if readiness is None and (cluster.answer is None or cluster.answer.value is None):
        return ServiceCause(f"Serve of cluster {name} has not reported yet")
    if readiness is None:
        message = (
            f"Serve of cluster {name} takes requests, but its controller does not answer the "
            "dashboard; look at the log of the head, and whether its processor is too busy"
        )
        return ServiceCause(message)
    if readiness.first_cause:
        parts = filter(None, (readiness.first_cause, _not_ready(cluster)))
        return ServiceCause(f"cluster {name}: {'; '.join(parts)}")
    return _of_proxies(cluster)


def _of_proxies(cluster: ServingCluster) -> ServiceCause | None:
    names = {pod.metadata.uid: pod.metadata.name for pod in cluster.pods}
    for uid, observed in cluster.proxies.items():
        if failure := failure_of(observed):
            pod = names.get(uid, uid)
            message = f"the Serve proxy on pod {pod} takes no requests: {failure}"
            return ServiceCause(f"{message}; look at its log in /tmp/ray/session_latest/logs/serve")
    if not accepts_requests(cluster):
        return ServiceCause(f"no pod of cluster {cluster.name} is ready to take requests yet")
    return None


def _not_ready(cluster: ServingCluster) -> str:
    """Return why the RayCluster is not ready, in its own words; empty if it is."""
    stored = conditions_of(cluster.cluster) if cluster.cluster is not None else ()
    ready = find_condition(stored, READY) or {}
    return "" if ready.get("status") == "True" else ready.get("message") or ""


def _of_rollout(seen: ServiceObservation) -> ServiceCause:
    step = next_step(collect_facts(seen))
    if step is RolloutWait.GATEWAY:
        return ServiceCause(f"waits for {step.value}: {routing_problem(seen)}")
    if isinstance(step, RolloutWait) and step is not RolloutWait.NOTHING:
        return ServiceCause(f"waits for {step.value}")
    return ServiceCause()
