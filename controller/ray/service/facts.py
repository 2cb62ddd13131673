"""Reduces an observation to the facts of the rollout."""

from __future__ import annotations

from msgspec.structs import replace

from controller.apimachinery.conditions import is_true, time_of
from controller.apimachinery.custom_object import conditions_of
from controller.apimachinery.validation import Problem
from controller.kube.objects import Service
from controller.ray.api import labels
from controller.ray.api.names import HEAD_POD_READY
from controller.ray.api.pod_state import is_announced
from controller.ray.api.rayservice import ROLLBACK_IN_PROGRESS, upgrade_type
from controller.ray.head import head_ports
from controller.ray.service.clusters import needs_identity
from controller.ray.service.identity import SpecChange
from controller.ray.service.observation import PENDING, ServiceObservation, ServingCluster
from controller.ray.service.proxies import accepts_requests
from controller.ray.service.rollout import (
    FULL,
    NO_CLUSTER,
    ClusterFacts,
    GoalCluster,
    Options,
    RolloutFacts,
    SelectedCluster,
)
from controller.ray.service.serve import Readiness, readiness_of
from controller.ray.service.services import fit_head
from controller.ray.service.traffic import gateway_class, routing_problem


def collect_facts(seen: ServiceObservation) -> RolloutFacts:
    """Return the facts; without a time, no interval and no connection counts.

    The goal of an invalid RayService is what had begun: an upgrade, a rollback or a first cluster.
    """
    facts, begun = cluster_facts(seen), isinstance(seen.goal, Problem)
    if begun and not is_followed(seen):
        return replace(facts, goal=GoalCluster.ACTIVE)
    to = GoalCluster.ACTIVE if facts.rolling_back else GoalCluster.PENDING
    strategy = upgrade_type(seen.upgrade, seen.settings.default_upgrade)
    facts = replace(facts, strategy=strategy, goal=to if begun else _goal(seen))
    if not facts.incremental:
        return facts
    found = seen.upgrade_options
    options = (found.max_surge_percent, found.step_size_percent or FULL) if found else ()
    return replace(
        facts,
        options=Options(*options),
        gateway_is_possible=bool(gateway_class(seen)),
        route_in_force=not routing_problem(seen),
        interval_passed=seconds_to_next_shift(seen) is None,
    )


def is_followed(seen: ServiceObservation) -> bool:
    """Return whether what had begun is completed while the specification is invalid.

    A first cluster has no services yet, and present ones may not fit a pending cluster: then their
    template must be valid. An incremental upgrade needs its options.
    """
    pending = seen.pending
    if pending is None or not pending.exists or pending.spec is None:
        return False
    if seen.is_incremental and seen.upgrade_options is None:
        return False
    return seen.is_known("serveService") or keeps_services(seen, pending)


def keeps_services(seen: ServiceObservation, cluster: ServingCluster) -> bool:
    """Return whether only the selectors of the present services change if this cluster serves."""
    if seen.active is None or cluster.spec is None or not isinstance(seen.goal, Problem):
        return False
    return fit_head(seen.services, head_ports(cluster.spec, cluster.heads))


def cluster_facts(seen: ServiceObservation) -> RolloutFacts:
    """Return the facts that do not depend on the specification, which may be invalid."""
    return RolloutFacts(
        active=_cluster(seen, seen.active),
        pending=_cluster(seen, seen.pending),
        incremental=seen.is_incremental,
        rolling_back=seen.is_true(ROLLBACK_IN_PROGRESS),
        selection=_selection(seen),
        shares=seen.shares,
    )


def seconds_to_next_shift(seen: ServiceObservation) -> float | None:
    """Return the seconds until the weights may change again; None if they may now.

    A time in the future comes from a clock that has gone back, and is ignored.
    """
    options = seen.upgrade_options
    last = time_of(seen.recorded(PENDING).get("lastTrafficMigratedTime"))
    if options is None or last is None or last > seen.now:
        return None
    left = (last - seen.now).total_seconds() + (options.interval_seconds or 0)
    return left if left > 0 else None


def _goal(seen: ServiceObservation) -> GoalCluster:
    """Return the cluster that has the wanted specification.

    One whose head will be taken away does not count as such while it is the active one: another
    cluster serves before the head goes.

    One that lost its owner reference counts as such: a cluster in its place would lose it too, and
    so would the next.
    """
    if any(each.orphaned for each in seen.clusters):
        return GoalCluster.ACTIVE if seen.pending is None else GoalCluster.PENDING
    active = seen.active
    leaves = active is not None and active.head is not None and is_announced(active.head.pod)
    if active is not None and _is_as_wanted(seen, active) and not leaves:
        return GoalCluster.ACTIVE
    pending = seen.pending
    if pending is not None and not pending.foreign:
        is_created_as_wanted = not pending.exists
        if is_created_as_wanted or _is_as_wanted(seen, pending):
            return GoalCluster.PENDING
    return _goal_of_another_operator(seen)


def _is_as_wanted(seen: ServiceObservation, cluster: ServingCluster) -> bool:
    """Return whether it stays and has the wanted specification, apart from changes in place.

    A cluster that had it at the present generation still has it, however it reads now.
    """
    identity = cluster.origin.identity
    if not cluster.exists or identity is None:
        return False
    if cluster.origin.generation == seen.service.metadata.generation:
        return True
    return identity.change_to(seen.valid_goal.identity) is not SpecChange.NEW_CLUSTER


def _goal_of_another_operator(seen: ServiceObservation) -> GoalCluster:
    """Return the cluster that another operator created for the present specification.

    Its own fields and defaults may make such a cluster look different.
    """
    if seen.status.get("observedGeneration") != seen.service.metadata.generation:
        return GoalCluster.OTHER
    rolling_back = seen.is_true(ROLLBACK_IN_PROGRESS)
    latest = seen.active if rolling_back else seen.pending or seen.active
    if latest is None or not needs_identity(latest):
        return GoalCluster.OTHER
    return GoalCluster.ACTIVE if latest is seen.active else GoalCluster.PENDING


def _cluster(seen: ServiceObservation, cluster: ServingCluster | None) -> ClusterFacts:
    if cluster is None:
        return NO_CLUSTER
    readiness = readiness_of(cluster)
    failing = cluster.answer is not None and cluster.answer.failing_since is not None
    lost = cluster.head is None or cluster.head.terminating
    present = conditions_of(cluster.cluster) if cluster.cluster is not None else ()
    has_head = not lost and is_true(present, HEAD_POD_READY)
    return ClusterFacts(
        recorded=True,
        exists=cluster.exists or cluster.orphaned,
        has_head=has_head,
        ready=_ready(None if failing else readiness, has_head=has_head, failing=lost or failing),
        serves=(
            not (lost or failing)
            and readiness is not None
            and readiness.serves
            and accepts_requests(cluster)
        ),
        keeps_connections=seen.is_incremental and seen.awaits_closing(cluster.name),
    )


def _ready(readiness: Readiness | None, *, has_head: bool, failing: bool) -> int | None:
    """Return the ready percentage of the full size; None if unknown.

    A dashboard that this process cannot reach is no sign of failing applications while the kubelet
    finds the head ready.
    """
    if failing and not has_head:
        return 0
    return None if readiness is None else readiness.ready


def _selection(seen: ServiceObservation) -> SelectedCluster:
    """Return the cluster that all stable services select; neither if they differ or are missing."""
    names = {_selected(observed.present) for _, observed in seen.children}
    if seen.active is not None and names == {seen.active.name}:
        return SelectedCluster.ACTIVE
    if seen.pending is not None and names == {seen.pending.name}:
        return SelectedCluster.PENDING
    return SelectedCluster.NEITHER


def _selected(present: object) -> str:
    selector = present.spec.selector if isinstance(present, Service) else None
    return (selector or {}).get(labels.CLUSTER, "")


# Describes how two clusters share capacity and requests.


def shares_text(seen: ServiceObservation) -> str:
    """Return a sentence about a valid RayService with an active and a pending cluster."""
    assert seen.active is not None
    assert seen.pending is not None
    facts = collect_facts(seen)
    active, pending, shares = seen.active.name, seen.pending.name, facts.shares
    if not facts.incremental:
        return f"cluster {active} gets all requests until cluster {pending} serves"
    return (
        f"cluster {active} has {shares.active_capacity} % of its capacity and gets "
        f"{shares.active_weight} % of the requests; cluster {pending} has "
        f"{shares.pending_capacity} % and gets {shares.pending_weight} %"
    )
