"""The first cause why a cluster is not ready: what a person should look at first.

Causes that block the head come before those that block workers. Causes that need a person's help
come before those that may pass by themselves, and those that only take time come last
(`Cause.urgency`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from controller.apimachinery.conditions import READY
from controller.apimachinery.validation import overwrite_command
from controller.kube.objects import Pod
from controller.kube.resources import JOBS
from controller.ray.api.names import KUBERAY_NOUNS, PROVISIONED, SUSPENDED
from controller.ray.api.pod_state import is_ready
from controller.ray.cluster.deletion import waiting_for
from controller.ray.cluster.head_and_workers import live_head
from controller.ray.cluster.held_deletions import HeldDeletions
from controller.ray.cluster.idle import suspension_remedy
from controller.ray.cluster.observation import ClusterObservation, PodHistory
from controller.ray.diagnosis import reasons
from controller.ray.diagnosis.crash_log import with_log_tail
from controller.ray.diagnosis.pod import (
    HEAD,
    SLOW_AFTER,
    component_of_pod,
    diagnose_pod,
    termination_deadline,
)
from controller.ray.diagnosis.reasons import (
    DELETION_HELD,
    REASONS,
    REQUIRED_OBJECT_MISSING,
    Cause,
    Severity,
    component_of,
)
from controller.ray.diagnosis.writes import (
    component_of_scope,
    component_of_target,
    failure_cause,
    is_inconclusive,
    lost_pod_cause,
    names_a_webhook,
    suspension_of,
)
from controller.runtime.plan import Event, Failure
from controller.runtime.reasons import WRITE_UNCONFIRMED

_NOUNS: Final = {**KUBERAY_NOUNS, JOBS: "RedisCleanupJob"}

PodCauses: TypeAlias = "list[tuple[Pod, Cause]]"
"""The unhealthy pods, each with its cause."""


def first_cause(
    seen: ClusterObservation,
    failures: tuple[Failure, ...],
    pod_causes: PodCauses,
    held: HeldDeletions | None,
) -> Cause | None:
    """Return the first cause, or None if the cluster is as specified."""
    if seen.cluster.metadata.terminating:
        return _deletion(seen, failures)
    hindrances = _hindrances(seen, failures, held)
    suspension = _suspension(seen)
    if suspension is not None:
        return min(hindrances, key=_urgency, default=suspension)
    missing = [*_children_missing(seen), *_pods_missing(seen)]
    of_pods = _causes_of_pods(seen, pod_causes, missing)
    found = [
        *hindrances,
        *_certificates_missing(seen, holds_up=bool(missing)),
        *_head_not_selected(seen, failures),
        *_failed_writes(seen, (f for f in failures if is_inconclusive(f) and not f.unknown)),
        *of_pods,
        *missing,
    ]
    if found:
        found += _changed_by_admission(seen)
    first = min(found, key=_urgency, default=None)
    return None if first is None else _counted(first, of_pods)


def _hindrances(
    seen: ClusterObservation, failures: tuple[Failure, ...], held: HeldDeletions | None
) -> list[Cause]:
    """Return the causes that hold up even a suspended cluster: writes, names, held deletions."""
    kept = list(_kept_refusal(seen, failures))
    kept_components = {cause.component for cause in kept}
    failed = (
        cause
        for cause in _failed_writes(seen, (f for f in failures if not is_inconclusive(f)))
        if cause.reason is not WRITE_UNCONFIRMED or cause.component not in kept_components
    )
    deletions = [Cause(reasons.DELETION_HELD, "cluster", held.message)] if held is not None else []
    return [*failed, *kept, *_blocked(seen), *deletions]


def _causes_of_pods(
    seen: ClusterObservation, pod_causes: PodCauses, missing: list[Cause]
) -> list[Cause]:
    """Return the causes of the pods; of a component that loses pods repeatedly, the loss."""
    short = {cause.component for cause in missing}
    affected = short | {cause.component for cause in _that_matter(pod_causes, short=short)}
    repeated = {pod.metadata.uid: cause for pod, cause in _lost_again(seen)}
    others = [(pod, cause) for pod, cause in pod_causes if pod.metadata.uid not in repeated]
    losses = (cause for cause in repeated.values() if cause.component in affected)
    return [*_that_matter(others, short=short), *losses]


def _deletion(seen: ClusterObservation, failures: tuple[Failure, ...]) -> Cause:
    """Return the cause for which a deleted cluster waits, or the failed write that blocks it."""
    failed = _failed_writes(seen, (f for f in failures if not is_inconclusive(f)))
    waiting = Cause(reasons.BEING_DELETED, "cluster", waiting_for(seen))
    return min(failed, key=_urgency, default=waiting)


def _failed_writes(seen: ClusterObservation, failures: Iterable[Failure]) -> Iterator[Cause]:
    return (failure_cause(failure, has_head=bool(seen.heads), nouns=_NOUNS) for failure in failures)


def diagnose_pods(seen: ClusterObservation) -> PodCauses:
    """Diagnose each existing pod."""
    head_ready = any(is_ready(head) and not head.metadata.terminating for head in seen.heads)
    pods = seen.all_pods
    if seen.crash_text is not None:
        pods = [with_log_tail(pod, seen.crash_log, seen.crash_text) for pod in pods]
    found = ((pod, diagnose_pod(pod, seen.now, head_ready=head_ready)) for pod in pods)
    return _without_excused(seen, [(pod, cause) for pod, cause in found if cause is not None])


def _that_matter(pod_causes: PodCauses, *, short: Collection[str]) -> list[Cause]:
    """Return the causes; those of pods that should be gone count only if a pod is missing."""
    return [
        cause
        for pod, cause in pod_causes
        if not pod.metadata.terminating or component_of_pod(pod) in short
    ]


def _without_excused(seen: ClusterObservation, pod_causes: PodCauses) -> PodCauses:
    """Leave out draining pods, and new ones that start while enough others are available."""
    if seen.rollout is None:
        return pod_causes
    draining, new = seen.rollout.leaving_pods, seen.rollout.spare_pods
    return [
        (pod, cause)
        for pod, cause in pod_causes
        if pod.metadata.uid not in draining
        and (pod.metadata.uid not in new or cause.reason.severity is not Severity.IN_PROGRESS)
    ]


def _lost_again(seen: ClusterObservation) -> Iterator[tuple[Pod, Cause]]:
    """Yield the last of the pods that a component has lost again and again, with the cause."""
    for each in seen.repeated_losses.values():
        last = with_log_tail(each.last, seen.crash_log, seen.crash_text)
        yield last, lost_pod_cause(last, each.rounds, each.next_try, seen.now)


def seconds_until_slow(seen: ClusterObservation, pod_causes: PodCauses) -> float | None:
    """Return the seconds until a step has taken too long, None if no step is under way."""
    deadlines = [
        cause.since + SLOW_AFTER
        for cause in (*_that_matter(pod_causes, short=()), *seen.children.certificates.awaited)
        if cause.since is not None and cause.reason.severity is Severity.IN_PROGRESS
    ]
    terminating = (pod for pod in seen.all_pods if pod.metadata.terminating)
    deadlines += filter(None, map(termination_deadline, terminating))
    return seen.seconds_until(deadlines)


def _urgency(cause: Cause) -> tuple[bool, bool, Severity, str, str, str]:
    return cause.urgency


def _counted(first: Cause, of_pods: Iterable[Cause]) -> Cause:
    """Return the cause with the number of further pods of its component that it concerns."""
    if first.reason.severity is Severity.IN_PROGRESS:
        return first
    alike = Counter((cause.reason.name, cause.component) for cause in of_pods)
    more = alike[first.reason.name, first.component] - 1
    if more < 1:
        return first
    return replace(first, detail=f"{first.detail} (and {more} more of {first.component} likewise)")


def _kept_refusal(seen: ClusterObservation, failures: tuple[Failure, ...]) -> Iterator[Cause]:
    """Yield the last rejected write while it could not be repeated."""
    ready = seen.condition(READY)
    reason = reasons.WRITE_REJECTIONS.get(str(ready.get("reason")))
    if reason is None or ready.get("status") != "False":
        return
    message = str(ready.get("message", ""))
    part = component_of(message)
    silent = {component_of_scope(scope) or scope for scope in seen.pending_scopes}
    silent |= {component_of_target(f.write.target) for f in failures if is_inconclusive(f)}
    named = (f for f in failures if f.overdue and names_a_webhook(f))
    silent -= {component_of_target(f.write.target) for f in named}
    if part in silent:
        message = message.removeprefix(f"{part}: ")
        yield Cause(reason, part, message, blocks_head=not part.startswith("group "))


def _blocked(seen: ClusterObservation) -> Iterator[Cause]:
    """Yield causes about objects that should not exist, or not in this shape."""
    for sentence in seen.unreadable:
        message = f"{sentence}; no pod is created until it is deleted"
        yield Cause(reasons.POD_UNREADABLE, "cluster", message, blocks_head=True)
    yield from seen.children.blocked
    if not seen.heads:
        for sentence in seen.foreign_heads:
            message = f"{sentence}; the head is not created before that pod is gone"
            yield Cause(reasons.FOREIGN_HEAD, HEAD, message, blocks_head=True)


def _changed_by_admission(seen: ClusterObservation) -> Iterator[Cause]:
    """Yield causes about objects that admission has changed, from the consistency warnings."""
    for sentence in seen.consistency_warnings:
        if sentence.startswith("admission changed "):
            yield Cause(reasons.ADMISSION_CHANGED, "cluster", sentence, blocks_head=not seen.heads)


def _suspension(seen: ClusterObservation) -> Cause | None:
    if seen.desired.spec.suspend:
        author = suspension_of(seen.cluster)
        remedy = suspension_remedy(seen)
        idle = f"nobody used it (see the condition Idle), so that there are no pods; {remedy}"
        message = idle if remedy else "spec.suspend is true, so that there are no pods"
        message = f"{message}; {author}".removesuffix("; ")
    elif seen.desired.spec.suspend is None and seen.is_true(SUSPENDED):
        message = "was suspended; set spec.suspend to false to resume it"
    else:
        return None
    return Cause(reasons.SUSPENDED, "cluster", message)


def _head_not_selected(seen: ClusterObservation, failures: tuple[Failure, ...]) -> Iterator[Cause]:
    """Yield the cause of a ready head that its service does not lead to.

    If the service cannot be corrected, the failed write is the cause.
    """
    service, head = seen.children.head_service, live_head(seen)
    if service is None or head is None or not is_ready(head):
        return
    if any(each.write.target.name == service.metadata.name for each in failures):
        return
    found, selector = head.metadata.labels or {}, service.spec.selector or {}
    lacking = {key: value for key, value in selector.items() if found.get(key) != value}
    if not lacking:
        return
    what = ", ".join(f"{key}={value}" for key, value in lacking.items())
    name = service.metadata.name
    message = f"pod {head.metadata.name} is ready, but Service {name} selects {what}, so that "
    message += "workers, clients and the dashboard do not reach it; "
    if any(drift.present is service for drift in seen.children.drifted):
        message += "the operator corrects the service"
    else:
        remedy = overwrite_command("label", "pod", head.metadata, lacking)
        message += f"put the labels back: {remedy}"
    yield Cause(reasons.HEAD_NOT_SELECTED, HEAD, message, blocks_head=True)


def _certificates_missing(seen: ClusterObservation, *, holds_up: bool) -> Iterator[Cause]:
    """Yield what pods wait for; a certificate that is renewed concerns none that is there."""
    for cause in seen.children.certificates.awaited:
        if cause.reason is not reasons.CERTIFICATE_PENDING:
            yield cause
        elif holds_up:
            is_slow = cause.since is not None and seen.now - cause.since >= SLOW_AFTER
            slow = replace(cause, reason=reasons.CERTIFICATE_NOT_ISSUED)
            yield slow if is_slow else cause


def _children_missing(seen: ClusterObservation) -> Iterator[Cause]:
    for child in seen.children.absent:
        first = not (child.independent or seen.heads)
        yield Cause(reasons.CHILD_MISSING, str(child), "does not exist yet", blocks_head=first)


def _pods_missing(seen: ClusterObservation) -> Iterator[Cause]:
    wanted = [(HEAD, 1, seen.heads)]
    for group in seen.desired.spec.worker_group_specs:
        name = group.group_name
        wanted.append((f"group {name}", group.desired_pods, seen.workers.get(name, ())))
    for part, count, pods in wanted:
        terminating = sum(pod.metadata.terminating for pod in pods)
        present = len(pods) - terminating
        if present < count:
            wait = f"; {terminating} are still being deleted" if terminating else ""
            message = f"{present} of {count} pods exist{wait}"
            last = "~"  # whatever else is known of the part says more
            yield Cause(reasons.PODS_MISSING, part, message, blocks_head=part == HEAD, age=last)


# The events about a cluster's readiness: one for each new first cause, and one for its end.
#
# The stored condition `Ready` shows what was reported before, so a restart repeats nothing. Where
# the first cause goes to and fro, each is reported once until the cluster is ready or edited. A
# cluster that comes up without failures needs no event: its conditions tell that it is ready.

BECAME_READY: Final = "RayClusterReady"
_IN_PROGRESS: Final = frozenset(
    reason.name for reason in REASONS if reason.severity is Severity.IN_PROGRESS
)


def with_reported_causes(seen: ClusterObservation, history: PodHistory) -> PodHistory:
    """Return the history, which remembers the causes that the stored conditions name.

    That of earlier generations is forgotten: it is reported again.
    """
    ready, generation = seen.condition(READY), seen.cluster.metadata.generation
    if ready.get("status") == "True":
        return replace(history, reported_causes=frozenset())
    if ready.get("status") != "False" or ready.get("reason") in _IN_PROGRESS:
        return history
    reported = frozenset(each for each in history.reported_causes if each[0] == generation)
    if ready.get("observedGeneration") == generation:
        reported |= {(generation, *_cause_in(ready))}
    return replace(history, has_failed=True, reported_causes=reported)


def readiness_events(seen: ClusterObservation, cause: Cause | None) -> tuple[Event, ...]:
    """Return the events for the change from the stored conditions to this first cause.

    A cause that only takes time has none; missing objects of users are reported with the children,
    held deletions with their own condition.
    """
    ready = seen.condition(READY)
    if cause is None:
        comes_up = not (seen.is_true(PROVISIONED) or seen.history.has_failed)
        if ready.get("status") == "True" or comes_up:
            return ()
        return (Event("Normal", BECAME_READY, "Reconcile", "The head and all workers are ready"),)
    what = (cause.reason.name, cause.component)
    stored = ready.get("status") == "False" and _cause_in(ready) == what
    reported = stored or (seen.cluster.metadata.generation, *what) in seen.history.reported_causes
    if (
        reported
        or cause.reason in {REQUIRED_OBJECT_MISSING, DELETION_HELD}
        or cause.reason.severity is Severity.IN_PROGRESS
    ):
        return ()
    reason = cause.event or cause.reason.name
    return (Event("Warning", reason, "Reconcile", _note(cause, reason)),)


def _cause_in(ready: Mapping[str, Any]) -> tuple[str, str]:
    """Return reason and component of the cause that the condition names."""
    return str(ready.get("reason")), component_of(str(ready.get("message")))


def _note(cause: Cause, reason: str) -> str:
    """Return the condition's sentence, with its reason if the event has another one."""
    return cause.message if reason == cause.reason.name else f"{cause.reason.name}: {cause.message}"
