"""Replaces pods that are lost again and again with back-off.

A pod is lost when it ends, or when another client than the operator deletes it. Losses are counted
in rounds, by scope: the head, or a worker group. Pods that are lost together, such as those of a
drained node, are one round, and are replaced at once. If pods created since the round began are
lost soon after their creation, another round begins, and its replacements wait: 20 s, 40 s, and so
on up to five minutes. The count starts anew when the pods of a scope have been healthy for a while,
or have another template.

KubeRay replaces lost pods at once, for any number of times.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from controller.apimachinery.conditions import time_of
from controller.ray.api import labels
from controller.ray.api.pod_state import is_ready
from controller.ray.cluster.observed.pod_history import LOSS_BACKOFF, Losses, PodHistory
from controller.ray.cluster.pods.healing import unhealthy_reason
from controller.ray.cluster.pods.writes import scope_of
from controller.ray.head.identity import HEAD_SCOPE, worker_scope

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from datetime import datetime

    from controller.kube.objects import Pod
    from controller.ray.cluster.observation import ClusterObservation, DesiredCluster

WELL_AFTER: Final = timedelta(minutes=10)
"""Age from which the loss of a pod says nothing about its successor.

The kubelet uses the same age for restarts of containers.
"""

_FORGOTTEN_AFTER: Final = WELL_AFTER + timedelta(seconds=LOSS_BACKOFF.cap)


def is_replacement_held(seen: ClusterObservation, scope: str) -> bool:
    """Return whether lost pods of a scope must not be replaced yet.

    Workers also wait for a head that was lost again and again.
    """
    if seen.history is None or scope not in seen.history.losses:
        return False
    if scope in seen.history.waiting:
        return True
    head_fails = HEAD_SCOPE in seen.repeated_losses and not any(map(is_ready, seen.heads))
    return head_fails and scope != HEAD_SCOPE


def count_owed(seen: ClusterObservation, scope: str, present: Iterable[Pod]) -> int:
    """Return the number of lost members that are gone and must not be replaced yet."""
    if seen.history is None or not is_replacement_held(seen, scope):
        return 0
    return len(seen.history.losses[scope].lost.difference(map(_member, present)))


def observe_losses(seen: ClusterObservation, desired: DesiredCluster, now: datetime) -> PodHistory:
    """Return the history, extended by what happened to the pods since the last plan."""
    pods = {pod.metadata.uid: pod for pod in seen.all_pods}
    alive = {uid: pod for uid, pod in pods.items() if _is_alive(pod)}
    last = seen.history
    if last is None:
        return PodHistory(alive, frozenset(pods))
    made = {pod.metadata.uid: pod for pod in seen.created_pods}
    new = {uid: pod for uid, pod in pods.items() if uid not in last.known}
    lost = [
        pods.get(uid, pod)
        for uid, pod in {**last.alive, **made, **new}.items()
        if uid not in alive and uid not in last.condemned and _is_young(pod, now)
    ]
    losses: dict[str, Losses] = {}
    for scope in {*last.losses, *map(scope_of, lost)}:
        of_scope = [pod for pod in lost if scope_of(pod) == scope]
        members = {_member(pod) for pod in seen.all_pods if scope_of(pod) == scope}
        template = _template(desired, scope)
        known = _still_counted(last.losses.get(scope), template, now)
        found = _continued(known, of_scope, members, template, now)
        if found is not None:
            losses[scope] = found
    waiting = frozenset(scope for scope, each in losses.items() if now < each.next_try)
    return replace(
        last,
        alive=alive,
        known=frozenset(pods),
        condemned=last.condemned & pods.keys(),
        losses=losses,
        waiting=waiting,
    )


def _still_counted(known: Losses | None, template: str, now: datetime) -> Losses | None:
    """Return the losses so far, None if they no longer count; a clock may go back."""
    if known is None or known.template != template or now - known.began >= _FORGOTTEN_AFTER:
        return None
    return known if known.began <= now else replace(known, began=now)


def _continued(
    known: Losses | None,
    lost: list[Pod],
    present: Collection[str],
    template: str,
    now: datetime,
) -> Losses | None:
    """Return the losses of a scope, including the new ones."""
    if not lost:
        return known
    members = frozenset(map(_member, lost))
    last = max(lost, key=lambda pod: (pod.metadata.creation_timestamp or "", pod.metadata.name))
    if known is not None and members <= known.before:
        return replace(known, lost=known.lost | members, last=last)
    rounds = known.rounds + 1 if known is not None else 1
    return Losses(rounds, now, members, members.union(present), template, last)


def _template(desired: DesiredCluster, scope: str) -> str:
    """Return the hash of the template of a scope's pods, empty if there is no such group."""
    if scope == HEAD_SCOPE:
        return str(desired.builder.head_hash)
    for group in desired.spec.worker_group_specs:
        if worker_scope(group.group_name) == scope:
            return str(desired.builder.worker_hash(group))
    return ""


def _is_alive(pod: Pod) -> bool:
    return not pod.metadata.terminating and unhealthy_reason(pod) is None


def _is_young(pod: Pod, now: datetime) -> bool:
    created = time_of(pod.metadata.creation_timestamp)
    return created is None or now - created < WELL_AFTER


def _member(pod: Pod) -> str:
    return (pod.metadata.labels or {}).get(labels.REPLICA_NAME) or pod.metadata.name
