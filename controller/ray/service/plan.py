"""The planner of RayServices: read `plan_service` from top to bottom.

The plan is a pure function of the observation and the time. The rollout decides the
next step in `rollout.py`. A step is stored first; this module plans the writes and
commands that follow from the stored status.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from msgspec.structs import replace

from controller.apimachinery.validation import Problem
from controller.ray.api import labels
from controller.ray.api.names import is_managed_elsewhere
from controller.ray.api.rayservice import RAYSERVICES
from controller.ray.children import (
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
from controller.runtime.definitions import leave_as_it_is
from controller.runtime.plan import NOTHING, Plan, Target, Write, stages_of
from controller.runtime.status import add_finalizer, remove_finalizer


def plan_service(seen: ServiceObservation) -> Plan:
    """Return the plan for the RayService at this moment."""
    if is_managed_elsewhere(seen.service):
        return NOTHING
    if seen.service.metadata.terminating:
        return _finalize(seen)
    plan = leave_as_it_is(seen.service, seen.definition) or _plan(seen)
    return replace(plan, subscriptions=serve.subscriptions(seen))


def _plan(seen: ServiceObservation) -> Plan:
    """Store the next step of the rollout; if none is due, act on the stored ones.

    While the RayService is invalid, its clusters serve their stored configs. What had begun is
    followed to its end. If that is not possible, requests are moved only from a cluster that can no
    longer carry them.
    """
    is_valid, facts = not isinstance(seen.goal, Problem), collect_facts(seen)
    first = _before_rollout(seen, facts)
    if first is not None:
        return first
    step = next_step(facts) if is_valid or is_followed(seen) else _rescue(facts)
    if not isinstance(step, RolloutWait):
        return Plan(commit=transition_patch(seen, facts, step))
    applied = (clusters.record_applied(seen, each) for each in seen.clusters if is_valid)
    return Plan(
        stages=stages_of(_cluster_writes(seen, facts)),
        commands=(*serve.put_configs(seen), *closing.close_connections(seen)),
        independent=(
            *_services(seen),
            *label_pods(seen),
            *clusters.delete_replaced(seen),
            *chain.from_iterable(applied),
        ),
        status=current_status(seen),
        requeue_after=_next_deadline(seen, step),
    )


def _before_rollout(seen: ServiceObservation, facts: RolloutFacts) -> Plan | None:
    """Return the plan for what comes before any step; None if nothing does.

    The source of another operator's clusters is recorded before a step stores the generation by
    which they are recognised. What is served already stays so meanwhile: another client may take
    the record off again.
    """
    is_valid = not isinstance(seen.goal, Problem)
    if not (is_valid or closing.is_suspending(seen) or closing.is_to_be_suspended(seen)):
        return None
    finalizer = add_finalizer(_target(seen), seen.service.metadata, labels.RAYSERVICE_FINALIZER)
    if finalizer is not None:
        return Plan(commit=finalizer)
    early = closing.plan_suspension(seen) or clusters.plan_timeout(seen)
    if early is not None:
        return replace(early, commands=tuple(closing.close_connections(seen)))
    wanted, unknown = _cluster_at(seen, facts.goal), filter(clusters.needs_identity, seen.clusters)
    records = [clusters.record_identity(seen, each, goal=each is wanted) for each in unknown]
    if not records:
        return None
    return Plan(
        stages=stages_of(records),
        independent=(*_services(seen), *label_pods(seen)),
        status=status_without_identity(seen),
    )


def _rescue(facts: RolloutFacts) -> Move | RolloutWait:
    return (rescue(facts) if facts.incremental else None) or RolloutWait.NOTHING


def _cluster_writes(seen: ServiceObservation, facts: RolloutFacts) -> Iterator[Write]:
    """Yield the writes that make the clusters what the stored status says."""
    if isinstance(seen.goal, Problem):
        for cluster in seen.clusters:
            yield from clusters.follow_suspension(seen, cluster)
        return
    if not facts.rolling_back:
        yield from clusters.create_pending(seen)
    resumed = _cluster_at(seen, facts.goal) or seen.active or seen.pending
    edited = _cluster_at(seen, edited_cluster(facts))
    for cluster in seen.clusters:
        yield from clusters.follow_suspension(seen, cluster, resumes=cluster is resumed)
        if clusters.needs_stamp(cluster):
            yield from clusters.stamp_reported(seen, cluster)
        elif cluster is edited:
            yield from clusters.update_in_place(seen, cluster)
        elif cluster is seen.active and keeps_outdated_cluster(facts):
            yield from clusters.update_config(seen, cluster)


def _cluster_at(seen: ServiceObservation, goal: GoalCluster) -> ServingCluster | None:
    return {GoalCluster.ACTIVE: seen.active, GoalCluster.PENDING: seen.pending}.get(goal)


def _services(seen: ServiceObservation) -> Iterator[Write]:
    namespace = seen.service.metadata.namespace
    for child, observed in (*seen.children, *seen.routing.children):
        if child.scope in seen.pending_scopes:
            continue
        if observed.state is ChildState.MISSING:
            yield create_child(namespace, child, seen.now)
        elif observed.drift is not None:
            repair = repair_child(namespace, observed.drift, seen.now)
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


def _next_deadline(seen: ServiceObservation, step: RolloutWait) -> float | None:
    """Return the seconds until the next moment that causes no event.

    At such a moment a replaced cluster may be deleted, open connections may be cut, lost
    applications are deployed again, an unreachable Serve counts as not running, the time to
    initialize has passed, a name may be free again, or the weights may change.
    """
    deletions = (clusters.deletion_time(each) for each in seen.others)
    moments = [each for each in deletions if each is not None]
    for each in seen.clusters:
        if (lost := serve.lost_since(each)) is not None:
            moments.append(lost + serve.LOSS_DELAY)
        if (unreached := serve.unreached_since(each)) is not None:
            moments.append(unreached + serve.CONTROLLER_DELAY)
    waits = [(each - seen.now).total_seconds() for each in moments if each > seen.now]
    waits += closing.seconds_to_cut(seen)
    if _has_name_conflict(seen):
        waits.append(NAME_CONFLICT_RETRY)
    timeout = None if isinstance(seen.goal, Problem) else clusters.seconds_to_timeout(seen)
    shift = seconds_to_next_shift(seen) if step is RolloutWait.INTERVAL else None
    return min((each for each in (*waits, timeout, shift) if each is not None), default=None)


def _has_name_conflict(seen: ServiceObservation) -> bool:
    """Return whether another owner's object has a name; its end causes no event."""
    observed = (found for _, found in (*seen.children, *seen.routing.children))
    conflicts = any(found.state is ChildState.OWNER_CONFLICT for found in observed)
    return conflicts or any(cluster.foreign for cluster in seen.clusters)


def _target(seen: ServiceObservation) -> Target:
    meta = seen.service.metadata
    return Target(RAYSERVICES, meta.namespace, meta.name, scope="finalizer")
