"""The planner of RayServices: read `plan_service` from top to bottom.

The plan is a pure function of the observation and the time. The rollout decides the
next step in `rollout.py`. A step is stored first; this module plans the writes and
commands that follow from the stored status.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from controller.apimachinery.problem import Problem
from controller.ray.api import labels
from controller.ray.api.names import is_managed_elsewhere
from controller.ray.api.rayservice import RAYSERVICES
from controller.ray.children.child import (
    NAME_CONFLICT_RETRY,
    ChildState,
    create_child,
    repair_child,
)
from controller.ray.service import closing, clusters, serve
from controller.ray.service.facts import collect_facts, is_followed, seconds_to_next_shift
from controller.ray.service.observation import ServiceObservation, ServingCluster
from controller.ray.service.proxies import label_pods
from controller.ray.service.rollout import (
    GoalCluster,
    Move,
    RolloutFacts,
    RolloutWait,
    edited_cluster,
    keeps_outdated_cluster,
    next_step,
    rescue,
)
from controller.ray.service.status import current_status, status_without_identity, transition_patch
from controller.runtime.plan import NOTHING, Plan, Target, Write, stages_of
from controller.runtime.reconcile.definitions import leave_as_it_is
from controller.runtime.reconcile.status import add_finalizer, remove_finalizer


def plan_service(  # noqa: PLR0911  one for each state of the RayService
    seen: ServiceObservation, now: datetime
) -> Plan:
    """Return the plan for the RayService at this moment."""
    if is_managed_elsewhere(seen.service):
        return NOTHING
    if seen.service.metadata.terminating:
        return _finalize(seen)
    untouched = leave_as_it_is(seen.service, seen.definition)
    if untouched is not None:
        return replace(untouched, subscriptions=serve.subscriptions(seen))
    if isinstance(seen.goal, Problem) and not (
        closing.is_suspending(seen) or closing.is_to_be_suspended(seen)
    ):
        return _keep(seen, now)
    finalizer = add_finalizer(_target(seen), seen.service.metadata, labels.RAYSERVICE_FINALIZER)
    if finalizer is not None:
        return Plan(commit=finalizer)
    early = closing.plan_suspension(seen, now) or clusters.plan_timeout(seen, now)
    if early is not None:
        return replace(
            early,
            subscriptions=serve.subscriptions(seen),
            commands=tuple(closing.close_connections(seen, now)),
        )
    return _plan_rollout(seen, now)


def _keep(seen: ServiceObservation, now: datetime) -> Plan:
    """Plan for an invalid RayService: its clusters serve their stored configs.

    What had begun is followed to its end. If that is not possible, requests are moved only from a
    cluster that can no longer carry them.
    """
    facts = collect_facts(seen, now)
    step = next_step(facts) if is_followed(seen) else _rescue(facts)
    if not isinstance(step, RolloutWait):
        patch = transition_patch(seen, facts, step, now)
        return Plan(commit=patch, subscriptions=serve.subscriptions(seen))
    suspended = [
        write for each in seen.clusters for write in clusters.follow_suspension(seen, each)
    ]
    return Plan(
        stages=stages_of(suspended),
        status=current_status(seen, now),
        subscriptions=serve.subscriptions(seen),
        commands=(*serve.put_configs(seen, now), *closing.close_connections(seen, now)),
        independent=(
            *_services(seen, now),
            *label_pods(seen),
            *clusters.delete_replaced(seen, now),
        ),
        requeue_after=_next_deadline(seen, step, now),
    )


def _rescue(facts: RolloutFacts) -> Move | RolloutWait:
    return (rescue(facts) if facts.incremental else None) or RolloutWait.NOTHING


def _plan_rollout(seen: ServiceObservation, now: datetime) -> Plan:
    """Store the next step of the rollout; if none is due, act on the stored ones.

    The source of another operator's clusters is recorded before any step, because a step stores the
    generation by which they are recognised. What is served already stays so meanwhile: another
    client may take the record off again.
    """
    facts = collect_facts(seen, now)
    unknown = tuple(_identities(seen, facts))
    if unknown:
        return Plan(
            stages=(unknown,),
            independent=(*_services(seen, now), *label_pods(seen)),
            status=status_without_identity(seen, now),
            subscriptions=serve.subscriptions(seen),
        )
    step = next_step(facts)
    if not isinstance(step, RolloutWait):
        patch = transition_patch(seen, facts, step, now)
        return Plan(commit=patch, subscriptions=serve.subscriptions(seen))
    return replace(
        _plan_stored(seen, facts, now),
        status=current_status(seen, now),
        subscriptions=serve.subscriptions(seen),
        requeue_after=_next_deadline(seen, step, now),
    )


def _plan_stored(seen: ServiceObservation, facts: RolloutFacts, now: datetime) -> Plan:
    """Plan from the stored status."""
    writes = [] if facts.rolling_back else [*clusters.create_pending(seen)]
    resumed = _cluster_at(seen, facts.goal) or seen.active or seen.pending
    for cluster in seen.clusters:
        writes += clusters.follow_suspension(seen, cluster, resumes=cluster is resumed)
        if clusters.needs_stamp(cluster):
            writes += clusters.stamp_reported(seen, cluster, now)
        elif cluster is _goal_cluster(seen, facts):
            writes += clusters.update_in_place(seen, cluster)
        elif cluster is seen.active and keeps_outdated_cluster(facts):
            writes += clusters.update_config(seen, cluster)
    return Plan(
        stages=stages_of(writes),
        commands=(*serve.put_configs(seen, now), *closing.close_connections(seen, now)),
        independent=(
            *_services(seen, now),
            *label_pods(seen),
            *clusters.delete_replaced(seen, now),
            *(
                write
                for cluster in seen.clusters
                for write in clusters.record_applied(seen, cluster)
            ),
        ),
    )


def _identities(seen: ServiceObservation, facts: RolloutFacts) -> Iterator[Write]:
    wanted = _cluster_at(seen, facts.goal)
    for cluster in filter(clusters.needs_identity, seen.clusters):
        yield clusters.record_identity(seen, cluster, goal=cluster is wanted)


def _cluster_at(seen: ServiceObservation, goal: GoalCluster) -> ServingCluster | None:
    return {GoalCluster.ACTIVE: seen.active, GoalCluster.PENDING: seen.pending}.get(goal)


def _goal_cluster(seen: ServiceObservation, facts: RolloutFacts) -> ServingCluster | None:
    """Return the cluster that edits reach, None if there is none."""
    return _cluster_at(seen, edited_cluster(facts))


def _services(seen: ServiceObservation, now: datetime) -> Iterator[Write]:
    namespace = seen.service.metadata.namespace
    for child, observed in (*seen.children, *seen.routing.children):
        if child.scope in seen.pending_scopes:
            continue
        if observed.state is ChildState.MISSING:
            yield create_child(namespace, child, now)
        elif observed.drift is not None:
            repair = repair_child(namespace, observed.drift, now)
            if repair is not None:
                yield repair


def _finalize(seen: ServiceObservation) -> Plan:
    """Delete all clusters, then remove the finalizer."""
    meta = seen.service.metadata
    if labels.RAYSERVICE_FINALIZER not in meta.finalizers:
        return NOTHING
    left = [each for each in seen.clusters if each.cluster is not None and not each.foreign]
    if not left and not seen.others:
        return Plan(commit=remove_finalizer(_target(seen), meta, labels.RAYSERVICE_FINALIZER))
    return Plan(stages=stages_of(clusters.delete_all(seen)))


def _next_deadline(seen: ServiceObservation, step: RolloutWait, now: datetime) -> float | None:
    """Return the seconds until the next moment that causes no event.

    At such a moment a replaced cluster may be deleted, open connections may be cut, lost
    applications are deployed again, an unreachable Serve counts as not running, the time to
    initialize has passed, a name may be free again, or the weights may change.
    """
    waits: list[float | None] = [
        *_seconds_to_deletions(seen, now),
        *closing.seconds_to_cut(seen, now),
    ]
    for each in seen.clusters:
        for since, delay in (
            (serve.lost_since(each), serve.LOSS_DELAY),
            (serve.unreached_since(each), serve.CONTROLLER_DELAY),
        ):
            if since is not None and since + delay > now:
                waits.append((since + delay - now).total_seconds())
    if not isinstance(seen.goal, Problem):
        waits.append(clusters.seconds_to_timeout(seen, now))
    if _has_name_conflict(seen):
        waits.append(NAME_CONFLICT_RETRY)
    if step is RolloutWait.INTERVAL:
        waits.append(seconds_to_next_shift(seen, now))
    return min((each for each in waits if each is not None), default=None)


def _has_name_conflict(seen: ServiceObservation) -> bool:
    """Return whether another owner's object has a name; its end causes no event."""
    children = (*seen.children, *seen.routing.children)
    if any(observed.state is ChildState.OWNER_CONFLICT for _, observed in children):
        return True
    return any(cluster.foreign for cluster in seen.clusters)


def _seconds_to_deletions(seen: ServiceObservation, now: datetime) -> Iterator[float]:
    """Yield the seconds until each replaced cluster may be deleted, if it may not yet."""
    for cluster in seen.others:
        moment = clusters.deletion_time(cluster)
        if moment is not None and moment > now:
            yield (moment - now).total_seconds()


def _target(seen: ServiceObservation) -> Target:
    meta = seen.service.metadata
    return Target(RAYSERVICES, meta.namespace, meta.name, scope="finalizer")
