"""The planner of RayClusters: read `plan_cluster` from top to bottom.

Pure: the plan follows from the observation and the time alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from controller.apimachinery.conditions import READY, stored_message
from controller.ray.api.names import SUSPENDED, SUSPENDING, is_managed_elsewhere
from controller.ray.cluster.certificates import expiring, with_expiry
from controller.ray.cluster.child_table import (
    child_events,
    create_children,
    has_unconfirmed_children,
    repair_children,
    seconds_until_repair,
)
from controller.ray.cluster.deletion import change_finalizer, finalize
from controller.ray.cluster.disruptions import announce, asks_for_budgets, with_budgets
from controller.ray.cluster.first_cause import with_reported_causes
from controller.ray.cluster.head_and_workers import (
    create_head,
    create_workers,
    delete_all_pods,
    delete_drained,
    delete_heads,
    delete_latecomers,
    delete_workers,
    every_pod,
    find_missing_pods,
    must_not_restart,
)
from controller.ray.cluster.held_deletions import (
    awaits_definition,
    divide,
    held_deletions,
    is_premature,
    why_recreation_is_held,
)
from controller.ray.cluster.idle import idle_options, with_idle
from controller.ray.cluster.observation import (
    AnyCluster,
    ClusterObservation,
    InvalidCluster,
    soonest,
)
from controller.ray.cluster.pods import is_replacement_held, observe_losses, pod_target
from controller.ray.cluster.rolling import with_rollout
from controller.ray.cluster.rolling_units import (
    drain_writes,
    is_drained_or_rolled,
    stamp_writes,
    with_ray,
)
from controller.ray.cluster.status import cluster_status, refusal_status, waiting_status
from controller.ray.cluster.upgrade import (
    delete_everything,
    history_writes,
    is_recreation_due,
    stamp_head,
)
from controller.ray.dashboard.probes import (
    ActivityProbe,
    HealthProbe,
    NodesProbe,
    Probe,
    ProbeSubscription,
)
from controller.ray.head import HEAD_SCOPE
from controller.runtime.definitions import wait_for_definition, what_is_awaited
from controller.runtime.plan import NOTHING, Create, Event, Lookup, Plan, Write, stages_of

BLOCKED_RETRY: Final = 30.0
"""Seconds until a taken name or an unreadable pod is checked again; its end may cause no event."""


def plan_cluster(seen: AnyCluster, now: datetime) -> Plan:
    """Return the plan that brings the cluster nearer to its specification."""
    seen = replace(seen, now=now)
    if is_managed_elsewhere(seen.cluster):
        return finalize(seen) or NOTHING  # no other controller removes our finalizer
    if isinstance(seen, InvalidCluster):
        return _plan_of_invalid(seen)
    if awaits_definition(seen) and not seen.cluster.metadata.terminating:
        return _wait_for_definition(seen)
    history = with_reported_causes(seen, observe_losses(seen))
    seen = with_rollout(replace(with_expiry(seen), history=history))
    plan = _plan_without_status(seen)
    plan = replace(plan, memory=history.after(plan), subscriptions=ray_subscriptions(seen))
    plan = with_budgets(with_idle(with_ray(plan, seen), seen), seen)
    if is_premature(seen, plan) and not seen.cluster.metadata.terminating:
        return replace(_wait_for_definition(seen), subscriptions=plan.subscriptions)
    if seen.crash_log is not None and seen.crash_text is None and not _writes(plan):
        plan = replace(plan, lookups=(*plan.lookups, seen.crash_log))
    is_unfinished = plan.commit if seen.cluster.metadata.terminating else plan.lookups
    if is_unfinished:
        return plan
    return replace(plan, status=cluster_status(seen, ()))


def ray_subscriptions(seen: ClusterObservation) -> tuple[ProbeSubscription, ...]:
    """Return the probes whose answers these plans need: Ray's nodes, and who uses the cluster."""
    head, probes = seen.ray.head, list[Probe]()
    if is_drained_or_rolled(seen):
        probes += (NodesProbe(), HealthProbe())
    if idle_options(seen) is not None or asks_for_budgets(seen):
        probes.append(ActivityProbe())
    return tuple(ProbeSubscription(head, probe) for probe in probes) if head is not None else ()


def _writes(plan: Plan) -> bool:
    """Return whether anything is written, for which no log is waited for."""
    return bool(plan.commit or plan.stages or plan.independent or plan.commands)


def _wait_for_definition(seen: ClusterObservation) -> Plan:
    """Check again soon; conditions explain why the definition is unreadable and what it lacks.

    Deletions that follow from missing fields are held at once: the definition may be complete
    before the wait is over.
    """
    plan = wait_for_definition(seen.cluster, seen.definition)
    why = what_is_awaited(seen.cluster, seen.definition)
    held = held_deletions(seen) if seen.definition.missing else None
    if not why and held is None:
        return plan
    return replace(plan, status=waiting_status(seen, why, held))


def _plan_without_status(seen: ClusterObservation) -> Plan:
    if seen.cluster.metadata.terminating:  # the garbage collector follows the owner references
        return finalize(seen) or Plan()
    if seen.is_true(SUSPENDING):
        return _suspend(seen)
    if seen.lost_head is not None:
        return Plan(lookups=(Lookup(pod_target(seen, seen.lost_head, HEAD_SCOPE)),))
    plan = _build(seen)
    return replace(
        plan,
        commit=change_finalizer(seen),
        independent=() if plan.lookups else tuple(_repairs(seen)),
        events=(*_warnings(seen), *child_events(seen), *_pki_ready(seen, plan)),
        requeue_after=_seconds_until_unblocked(seen),
    )


def _plan_of_invalid(seen: InvalidCluster) -> Plan:
    """Report the problem, once as an event, and begin nothing.

    A suspension, a deletion or the drain of a worker that has begun is completed, and what is seen
    of the pods is reported.
    """
    if seen.cluster.metadata.terminating:
        return finalize(seen) or Plan()
    problem = seen.problem
    ready = seen.condition(READY)
    reported = (ready.get("message"), ready.get("observedGeneration"))
    is_new = reported != (stored_message(str(problem)), seen.cluster.metadata.generation)
    event = Event("Warning", problem.reason, "Validate", str(problem))
    if seen.is_true(SUSPENDING):
        plan = _suspend(seen)
    else:
        drained, seconds_left = delete_drained(seen)
        plan = Plan(stages=stages_of(drained), requeue_after=seconds_left)
    if plan.lookups:
        return plan
    events = (event,) if is_new else ()
    return replace(plan, status=refusal_status(seen), events=events)


def _suspend(seen: AnyCluster) -> Plan:
    """Delete all pods; a live list confirms that none is left before the status says so."""
    if not seen.may_have_pods and not seen.pods_listed:
        return Plan(lookups=(every_pod(seen.cluster),))
    return Plan(stages=stages_of(delete_all_pods(seen)))


def _build(seen: ClusterObservation) -> Plan:
    """Create what is missing and delete what is surplus."""
    children, bindings = create_children(seen)
    if seen.children.blocked or seen.unreadable or has_unconfirmed_children(seen):
        return Plan(stages=stages_of(children, bindings))
    if seen.desired.spec.suspend or seen.is_true(SUSPENDED):
        return Plan(stages=stages_of([*children, *delete_latecomers(seen)], bindings))
    if is_recreation_due(seen) and not why_recreation_is_held(seen):
        if not seen.pods_listed:
            return Plan(lookups=(every_pod(seen.cluster),))
        return Plan(stages=stages_of(children, bindings, *delete_everything(seen)))
    if must_not_restart(seen):
        return Plan(stages=stages_of(children, bindings))
    return Plan(stages=stages_of(children, bindings, *_scale(seen)))


def _scale(seen: ClusterObservation) -> list[list[Write]]:
    """Return stages that create missing pods and delete surplus ones."""
    surplus, held = divide(seen)
    deletions = [*delete_heads(seen), *delete_workers(seen, surplus), *drain_writes(seen)]
    deletions += announce(seen, {each.target.name for each in deletions})
    if seen.children.certificates.awaited:
        return [deletions]
    groups_held = held.groups if held is not None else ()
    missing = find_missing_pods(seen, without=groups_held)
    head = list(create_head(seen, missing))
    if not seen.heads and (
        HEAD_SCOPE in seen.pending_scopes or is_replacement_held(seen, HEAD_SCOPE)
    ):
        return [deletions]  # workers without a head are of no use to anyone
    workers, *hosts = create_workers(seen, missing)
    if head:  # a quota that is too small must not be spent on workers without a head
        return [[*head, *deletions], workers, *hosts]
    return [[*deletions, *workers], *hosts]


def _seconds_until_unblocked(seen: ClusterObservation) -> float | None:
    """Return the seconds until more can be done without an event."""
    is_blocked = seen.children.blocked or seen.unreadable or seen.children.notes
    return soonest(
        BLOCKED_RETRY if is_blocked else None,
        seen.history.seconds_until_next_try(seen.now),
        seconds_until_repair(seen),
        expiring(seen)[1],
        seen.seconds_until(each.due for each in seen.children.certificates.renewals),
        seen.rollout.seconds_left if seen.rollout is not None else None,
    )


def _repairs(seen: ClusterObservation) -> Iterator[Write]:
    """Yield the repairs that are due whatever happens to the pods."""
    yield from stamp_head(seen)
    yield from stamp_writes(seen)
    yield from repair_children(seen)
    yield from history_writes(seen)


def _pki_ready(seen: ClusterObservation, plan: Plan) -> Iterator[Event]:
    """Yield KubeRay's event about issued certificates, with each head that they have waited for."""
    writes = (write for stage in plan.stages for write in stage)
    starts = (w for w in writes if isinstance(w, Create) and w.target.scope == HEAD_SCOPE)
    if seen.desired.spec.has_mtls and any(starts):
        yield Event("Normal", "MTLSPKIReady", "Reconcile", "The certificates of mTLS are issued")


def _warnings(seen: ClusterObservation) -> Iterator[Event]:
    """Yield warnings about the specification, once a generation."""
    if not seen.is_recorded:
        for warning in seen.desired.warnings:
            yield Event("Warning", "InvalidRayClusterSpec", "Validate", warning)
