"""The pods of a cluster: what each is, which are lost, and how they are created and deleted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from controller.apimachinery.conditions import rfc3339, time_of
from controller.apimachinery.validation import overwrite_command
from controller.kube.objects import Pod
from controller.kube.resources import PODS
from controller.ray.api import labels
from controller.ray.api.names import head_prefix, worker_prefix
from controller.ray.api.pod_state import group_of, is_head, is_ready, ray_status
from controller.ray.cluster.observation import (
    LOSS_BACKOFF,
    NO_HISTORY,
    AnyCluster,
    ClusterObservation,
    DesiredCluster,
    Losses,
    PodHistory,
)
from controller.ray.head import HEAD_SCOPE, worker_scope
from controller.runtime.plan import Create, Delete, Event, MergePatch, ReplicaMember, Target

# Decides which pods the operator replaces: exactly one component repairs each class of failure.
#
# Two would race: the kubelet restarts the container of a pod while the operator replaces the pod.
# Without any the pod would stay dead. The table:
#
#     phase                    Ray container          restart policy         repaired by
#     -----------------------  ---------------------  ---------------------  ----------------
#     any, being deleted       any                    any                    control plane
#     Failed, Succeeded        any                    any                    operator
#     Running                  ended                  Never                  operator
#     Running                  ended with code 0      OnFailure              operator
#     Running                  ended otherwise        OnFailure, Always      kubelet
#     Running                  waits (crash loop)     OnFailure, Always      kubelet
#     Running                  runs, or unknown       any                    none is needed
#     Unknown                  any                    any                    control plane
#     Pending                  any                    any                    kubelet, scheduler
#
# `Failed` covers eviction, preemption, node shutdown and an out-of-memory kill under `Never`: the
# kubelet has given up, whatever the restart policy says. `Unknown` and being deleted without an end
# are a lost node: only the control plane may say that its pods are gone, because they may still be
# running there.


def unhealthy_reason(pod: Pod) -> str | None:
    """Return a clause about why the operator must replace the pod; None if it must not.

    A terminating pod still has a reason if it has ended, because it will not run again.
    """
    status = pod.status
    if status.phase in {"Failed", "Succeeded"}:
        detail = f" ({status.reason})" if status.reason else ""
        return f"its phase is {status.phase}{detail}"
    if not any(each.state.terminated for each in status.container_statuses):
        return None
    ray = ray_status(pod)
    ended = ray.state.terminated if ray is not None else None
    if ended is None or status.phase != "Running" or pod.metadata.terminating:
        return None
    policy = pod.spec.restart_policy
    stays_down = policy == "Never" or (policy == "OnFailure" and ended.exit_code == 0)
    if not stays_down:
        return None
    return f"its Ray container ended with exit code {ended.exit_code} ({ended.reason})"


# Sorts the pods of a cluster by role: heads, and workers of each group.
#
# Labels name the role, but any client may change them. A pod's name shows the role too, and never
# changes: a worker whose label names another group is no surplus of that group, and no second head.


class PodsByRole(Struct, frozen=True):
    """The pods of one cluster.

    Attributes:
        workers: workers by group, including groups that are not in the specification.
        relabelled: sentences about pods whose labels contradict their names.
        unknown: sentences about pods of which neither name nor labels tell the role.
    """

    heads: tuple[Pod, ...]
    workers: Mapping[str, tuple[Pod, ...]]
    relabelled: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def sort_by_role(cluster: str, groups: Iterable[str], pods: Iterable[Pod]) -> PodsByRole:
    """Sort pods by their names; where a name is ambiguous, labels decide."""
    groups_of = _groups_of_names(cluster, groups)
    heads: list[Pod] = []
    workers: defaultdict[str, list[Pod]] = defaultdict(list)
    relabelled: list[str] = []
    unknown: list[str] = []
    for pod in pods:
        labelled = labels.HEAD_GROUP if is_head(pod) else group_of(pod)
        group = groups_of.get(pod.metadata.name.rpartition("-")[0], labelled)
        if not group:
            unknown.append(f"pod {pod.metadata.name} lost the label {labels.GROUP}")
        if group == labels.HEAD_GROUP:
            heads.append(pod)
        else:
            workers[group].append(pod)
        if group != labelled:
            relabelled.append(_sentence(pod, group))
    return PodsByRole(
        tuple(heads),
        {group: tuple(found) for group, found in workers.items()},
        tuple(sorted(relabelled)),
        tuple(sorted(unknown)),
    )


def _groups_of_names(cluster: str, groups: Iterable[str]) -> dict[str, str]:
    """Return groups by the prefix of their pods' names, where that is neither cut nor ambiguous."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    found[head_prefix(cluster)].append(labels.HEAD_GROUP)
    for group in groups:
        found[worker_prefix(cluster, group)].append(group)
    return {prefix: same[0] for prefix, same in found.items() if len(same) == 1}


def _sentence(pod: Pod, group: str) -> str:
    meta = pod.metadata
    role = labels.HEAD if group == labels.HEAD_GROUP else labels.WORKER
    found = meta.labels or {}
    values = {labels.GROUP: group, labels.NODE_TYPE: role}
    return (
        f"pod {meta.name} was created for group {group}, and its labels say "
        f"{labels.GROUP}={found.get(labels.GROUP, '')} and "
        f"{labels.NODE_TYPE}={found.get(labels.NODE_TYPE, '')}; put them back: "
        f"{overwrite_command('label', 'pod', meta, values)}"
    )


# Creates and deletes a cluster's pods, with the events that report their success.
#
# The names of events are KubeRay's: `CreatedHeadPod`, `DeletedWorkerPod`. `readiness_events`
# reports failures: one event for a cause, not one for each pod and attempt. Where pods are lost
# again and again, events do not name them, so that equal events form one series.


def pod_target(seen: AnyCluster, name: str, scope: str) -> Target:
    """Return the target of a write to a pod of this cluster."""
    return Target(PODS, seen.cluster.metadata.namespace, name, scope)


def scope_of(pod: Pod) -> str:
    """Return the scope that counts this pod: the head, or its worker group."""
    return HEAD_SCOPE if is_head(pod) else worker_scope(group_of(pod))


def create_pod(
    seen: AnyCluster,
    body: Mapping[str, Any],
    *,
    scope: str,
    what: str,
    member: ReplicaMember | None = None,
) -> Create:
    """Create a pod; `what` is `HeadPod` or `WorkerPod`."""
    name: str = body["metadata"]["name"]
    return Create(
        pod_target(seen, name, scope),
        body,
        member,
        on_success=Event(
            "Normal",
            f"Created{what}",
            "Create",
            "Created a pod in place of one that was lost again"
            if scope in seen.repeated_losses
            else f"Created pod {name}",
            aggregate_note="Created {count} pods",
        ),
    )


def delete_pod(seen: AnyCluster, pod: Pod, *, what: str, reason: str) -> Delete:
    """Delete a pod; `what` is `HeadPod`, `WorkerPod` or `Pod`, `reason` a clause."""
    name, scope = pod.metadata.name, scope_of(pod)
    deleted = "a pod that was lost again" if scope in seen.repeated_losses else f"pod {name}"
    return Delete(
        pod_target(seen, name, scope),
        pod.metadata.uid,
        on_success=Event(
            "Normal",
            f"Deleted{what}",
            "Delete",
            f"Deleted {deleted} because {reason}",
            aggregate_note=f"Deleted {{count}} pods because {reason}",
        ),
    )


def patch_pod(
    seen: AnyCluster,
    pod: Pod,
    annotations: Mapping[str, str | None],
    event: Event | None = None,
    *,
    leaves_service: bool = False,
) -> Iterator[MergePatch]:
    """Annotate a pod, and let the service of a RayService lead to it no more, in one write."""
    patch: dict[str, Any] = {"annotations": annotations}
    if leaves_service:
        patch["labels"] = {labels.SERVE: "false"}
    target = pod_target(seen, pod.metadata.name, scope_of(pod))
    write = MergePatch(target, pod.metadata.uid, {"metadata": patch}, on_success=event)
    return seen.settled((write,))


def draining_now(seen: AnyCluster) -> dict[str, str | None]:
    """Return the annotation of a pod whose drain begins."""
    return {labels.DRAINING_SINCE: rfc3339(seen.now)}


def drain_event(pod: Pod, why: str, why_many: str) -> Event:
    """Return the event of a drain that begins."""
    return Event(
        "Normal",
        "DrainingWorkerPod",
        "Update",
        f"Draining pod {pod.metadata.name}{why}",
        aggregate_note=f"Draining {{count}} pods{why_many}",
    )


def draining_since(pods: Iterable[Pod]) -> datetime | None:
    """Return since when the first of the pods has been draining; None if none is.

    The pod itself stores it, before Ray is told, so that a restart of the operator changes nothing.
    """
    stamps = ((pod.metadata.annotations or {}).get(labels.DRAINING_SINCE) for pod in pods)
    return min(filter(None, map(time_of, filter(None, stamps))), default=None)


def template_hash(pod: Pod) -> str | None:
    """Return the hash with which the pod was created."""
    return (pod.metadata.annotations or {}).get(labels.TEMPLATE_HASH)


def pods_and_hashes(seen: ClusterObservation) -> list[tuple[Pod, str]]:
    """Return the pods of groups that are specified, each with the hash of the present template."""
    wanted = seen.desired.builder.hashes
    return [
        (pod, wanted[group])
        for group, pods in {"": seen.heads, **seen.workers}.items()
        if group in wanted
        for pod in pods
    ]


# Replaces pods that are lost again and again with back-off.
#
# A pod is lost when it ends, or when another client than the operator deletes it. Losses are
# counted in rounds, by scope: the head, or a worker group. Pods that are lost together, such as
# those of a drained node, are one round, and are replaced at once. If pods created since the round
# began are lost soon after their creation, another round begins, and its replacements wait: 20 s,
# 40 s, and so on up to five minutes. The count starts anew when the pods of a scope have been
# healthy for a while, or have another template.
#
# KubeRay replaces lost pods at once, for any number of times.

WELL_AFTER: Final = timedelta(minutes=10)
"""Age from which the loss of a pod says nothing about its successor.

The kubelet uses the same age for restarts of containers.
"""

_FORGOTTEN_AFTER: Final = WELL_AFTER + timedelta(seconds=LOSS_BACKOFF.cap)


def is_replacement_held(seen: AnyCluster, scope: str) -> bool:
    """Return whether lost pods of a scope must not be replaced yet.

    Workers also wait for a head that was lost again and again.
    """
    if scope not in seen.history.losses:
        return False
    if scope in seen.history.waiting:
        return True
    head_fails = HEAD_SCOPE in seen.repeated_losses and not any(map(is_ready, seen.heads))
    return head_fails and scope != HEAD_SCOPE


def count_owed(seen: AnyCluster, scope: str, present: Iterable[Pod]) -> int:
    """Return the number of lost members that are gone and must not be replaced yet."""
    if not is_replacement_held(seen, scope):
        return 0
    return len(seen.history.losses[scope].lost.difference(map(_member, present)))


def observe_losses(seen: ClusterObservation) -> PodHistory:
    """Return the history, extended by what happened to the pods since the last plan."""
    pods = {pod.metadata.uid: pod for pod in seen.all_pods}
    alive = {uid: pod for uid, pod in pods.items() if _is_alive(pod)}
    last = seen.history
    if last is NO_HISTORY:
        return PodHistory(alive, frozenset(pods))
    made = {pod.metadata.uid: pod for pod in seen.created_pods}
    new = {uid: pod for uid, pod in pods.items() if uid not in last.known}
    lost = [
        pods.get(uid, pod)
        for uid, pod in {**last.alive, **made, **new}.items()
        if uid not in alive and uid not in last.condemned and _is_young(pod, seen.now)
    ]
    losses: dict[str, Losses] = {}
    for scope in {*last.losses, *map(scope_of, lost)}:
        of_scope = [pod for pod in lost if scope_of(pod) == scope]
        members = {_member(pod) for pod in seen.all_pods if scope_of(pod) == scope}
        template = _template(seen.desired, scope)
        known = _still_counted(last.losses.get(scope), template, seen.now)
        found = _continued(known, of_scope, members, template, seen.now)
        if found is not None:
            losses[scope] = found
    waiting = frozenset(scope for scope, each in losses.items() if seen.now < each.next_try)
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
    known: Losses | None, lost: list[Pod], present: Collection[str], template: str, now: datetime
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
        return desired.builder.hashes[""]
    for group in desired.spec.worker_group_specs:
        if worker_scope(group.group_name) == scope:
            return desired.builder.hashes[group.group_name]
    return ""


def _is_alive(pod: Pod) -> bool:
    return not pod.metadata.terminating and unhealthy_reason(pod) is None


def _is_young(pod: Pod, now: datetime) -> bool:
    created = time_of(pod.metadata.creation_timestamp)
    return created is None or now - created < WELL_AFTER


def _member(pod: Pod) -> str:
    return (pod.metadata.labels or {}).get(labels.REPLICA_NAME) or pod.metadata.name
