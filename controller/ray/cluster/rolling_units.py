"""The units that a rolling upgrade replaces: their versions, stamps, drains and turns."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from msgspec.structs import replace

from controller.apimachinery.conditions import ConditionSet
from controller.apimachinery.custom_object import dig
from controller.apimachinery.metadata import suffix
from controller.kube.objects import Pod
from controller.ray.api import labels
from controller.ray.api.names import GROUPS_UPGRADING
from controller.ray.api.pod_state import is_announced, is_ready, ray_container
from controller.ray.api.upgrade_strategy import RollingUpdate
from controller.ray.cluster.observation import (
    ClusterObservation,
    DrainMemory,
    WorkerUnit,
    WorkerUnits,
)
from controller.ray.cluster.pods import (
    drain_event,
    draining_now,
    draining_since,
    patch_pod,
    pods_and_hashes,
    template_hash,
    unhealthy_reason,
)
from controller.ray.cluster.rollout import AT_REST, GroupUpgrade, Verdict
from controller.ray.cluster.scale_down import deletion_rank, is_unfinished
from controller.ray.dashboard.commands import CommandRefused, HeadCommand
from controller.ray.dashboard.own_job import DrainNodes
from controller.ray.pods.hashes import UNKNOWN, is_comparable, is_outdated
from controller.ray.rolling import Budget, Unit, UnitGroup
from controller.runtime.plan import Event, Plan, Write

# Decides whether pods of a new template can join a running cluster.
#
# Nodes of different versions of Ray or Python do not join one cluster. Ray itself reports the
# running version. The version of an image follows from the tag of Ray's own images, or from
# `spec.rayVersion`.

_IMAGES: Final = frozenset({"ray", "ray-ml", "ray-llm"})
_TAG: Final = re.compile(r"(\d+\.\d+\.\d+)([.-].*)?")
_PYTHON: Final = re.compile(r"-py(\d+)(-|$)")


def image_versions(image: str) -> tuple[str, str]:
    """Return the versions of Ray and Python, such as `2.60.0` and `310`, in the name of an image.

    Both may be empty. Only Ray's own images count, from any registry.
    """
    path, _, tag = image.partition("@")[0].rpartition("/")[2].partition(":")
    found = _TAG.fullmatch(tag) if path in _IMAGES else None
    if found is None:
        return "", ""
    python = _PYTHON.search(tag)
    return found[1], python[1] if python else ""


def compare(image: str, ray_version: str, *, running: str, head_image: str) -> tuple[bool, str]:
    """Return whether it is known if nodes of an image can join, and a clause about why not.

    Args:
        image: image of the new template's Ray container.
        ray_version: `spec.rayVersion`, which counts if the image's name has no version.
        running: version that Ray reports; empty if unknown.
        head_image: image of the head's container.
    """
    if image == head_image:
        return True, ""
    (named, python), (_, python_of_head) = image_versions(image), image_versions(head_image)
    wanted = named or ray_version
    if wanted and running and wanted != running:
        source = f"image {image}" if named else "spec.rayVersion"
        return True, f"{source} says Ray {wanted}, and the cluster runs Ray {running}"
    if python and python_of_head and python != python_of_head:
        why = f"image {image} has another version of Python than the head's {head_image}"
        return True, why
    return bool(wanted and running), ""


def image_of_template(template: Mapping[str, Any]) -> str:
    """Return the image of a template's Ray container, which is its first one."""
    return str(dig(template, "spec", "containers", 0, "image") or "")


def image_of_pod(pod: Pod) -> str:
    """Return the image of the pod's Ray container."""
    container = ray_container(pod)
    return container.image if container is not None else ""


# Records the groups whose turn in a rolling update has begun, in a condition of the cluster.
#
# A turn is recorded before any pod of the group is deleted, so that a restarted operator knows for
# which replacements to wait. Every definition keeps conditions; KubeRay's drop `status.upgrade`.

_SEPARATOR: Final = ", "


def recorded_turns(seen: ClusterObservation) -> frozenset[str]:
    """Return the names of the groups whose turn has begun."""
    condition = seen.condition(GROUPS_UPGRADING)
    if condition.get("status") != "True":
        return frozenset()
    return frozenset(filter(None, str(condition.get("message")).split(_SEPARATOR)))


def set_turns(conditions: ConditionSet, begun: Collection[str]) -> None:
    """Set the condition to True with the names of the groups; remove it without any."""
    if begun:
        conditions.set(GROUPS_UPGRADING, "True", "Rolling", _SEPARATOR.join(sorted(begun)))
    else:
        conditions.remove(GROUPS_UPGRADING)


# Divides the pods of a group into units to replace: single pods, or replicas of several hosts.


def upgrade_units(
    seen: ClusterObservation, units: WorkerUnits, rolling: RollingUpdate, *, unproven: bool
) -> GroupUpgrade:
    """Return the units of a group, in the order in which a scale-down would delete them.

    `unproven` is whether it is unknown if pods of its template can join the cluster.
    """
    name, desired = units.group.group_name, units.desired
    wanted = seen.desired.builder.hashes[name]
    named = frozenset(units.group.scale_strategy.workers_to_delete)
    members = {each.name or each.pods[0].metadata.name: each for each in units.units}
    ordered = sorted(members, key=lambda each: _rank(members[each].pods, named, wanted))
    timeout = timedelta(seconds=rolling.drain_timeout_seconds)
    found = tuple(_unit(seen, each, units, members[each], timeout) for each in ordered)
    budget = Budget(rolling.unavailable_of(desired), rolling.surge_of(desired))
    return GroupUpgrade(
        UnitGroup(name, desired, found, budget, unproven),
        units.hosts,
        {each: members[each].pods for each in ordered},
    )


def _rank(
    pods: Sequence[Pod], named: frozenset[str], wanted_hash: str
) -> tuple[tuple[bool, ...], str]:
    return (
        min(deletion_rank(pod, named, wanted_hash) for pod in pods),
        min(pod.metadata.name for pod in pods),
    )


def _unit(
    seen: ClusterObservation, name: str, units: WorkerUnits, unit: WorkerUnit, timeout: timedelta
) -> Unit:
    """Return a unit of a group under the name of its pod or replica."""
    pods, since, complete = unit.pods, draining_since(unit.pods), units.is_whole(unit)
    wanted = seen.desired.builder.hashes[units.group.group_name]
    named = units.group.scale_strategy.workers_to_delete
    keeps_time = not any(map(is_announced, pods))
    is_over = since is not None and keeps_time and seen.now >= since + timeout
    return Unit(
        name,
        up_to_date=not any(is_outdated(template_hash(p), wanted) for p in pods),
        available=complete and all(is_ready(p) and seen.ray.is_alive(p) for p in pods),
        joined=any(_may_hold_work(seen, p) for p in pods),
        draining=since is not None,
        drained=is_over or (since is not None and all(_is_drained(seen, p) for p in pods)),
        gone=not (complete or is_unfinished(units, unit))
        or any(
            p.metadata.terminating or p.metadata.name in named or unhealthy_reason(p) is not None
            for p in pods
        ),
    )


def _may_hold_work(seen: ClusterObservation, pod: Pod) -> bool:
    if is_ready(pod):
        return True
    return pod.status.phase != "Pending" and not seen.ray.never_joined(pod)


def _is_drained(seen: ClusterObservation, pod: Pod) -> bool:
    if not _may_hold_work(seen, pod) or seen.ray.is_dead(pod):
        return True
    if is_announced(pod):
        return False  # whoever takes it away decides when, drained or not
    node = seen.ray.node_of(pod)
    command = seen.history.drains.commands.get(node.id, "") if node is not None else ""
    return isinstance(seen.ray.drains.get(command), CommandRefused)


# Records on pods without a comparable hash from which template they were created.
#
# Pods of another operator, or of another algorithm, have no hash that can be compared. While the
# specification is the one that the status has seen, they are assumed to be created from it. If it
# was edited meanwhile, they count as outdated, unless an autoscaler may have edited it.


def unstamped_pods(seen: ClusterObservation) -> list[tuple[Pod, str]]:
    """Return the pods without a comparable hash, each with the hash of the present template."""
    return [
        (pod, wanted)
        for pod, wanted in pods_and_hashes(seen)
        if not (is_comparable(template_hash(pod)) or pod.metadata.terminating)
    ]


def hides_an_edit(seen: ClusterObservation) -> bool:
    """Return whether the status must not yet mark the present specification as observed."""
    is_rolling = seen.desired.spec.upgrade_strategy.rolling is not None
    return is_rolling and _is_edited(seen) and bool(unstamped_pods(seen))


def stamp_writes(seen: ClusterObservation) -> Iterator[Write]:
    """Record on pods, a limited number at a time, from which template they were created."""
    is_edited = _is_edited(seen)
    for pod, wanted in unstamped_pods(seen)[: seen.settings.batch]:
        yield from patch_pod(seen, pod, {labels.TEMPLATE_HASH: UNKNOWN if is_edited else wanted})


def _is_edited(seen: ClusterObservation) -> bool:
    is_newer = seen.recorded_generation is not None and not seen.is_recorded
    return is_newer and not seen.desired.spec.autoscaling


UNLIMITED: Final = timedelta(days=1)
"""Time of a drain whose end somebody else decides; Ray wants one."""

# Drains workers: records the time on the pod, tells Ray, then asks Ray for the result.


def drain_writes(seen: ClusterObservation) -> Iterator[Write]:
    """Record the time since which pods are draining on them.

    A time in the future came from a clock that has gone back since; it is written anew.
    """
    if seen.rollout is None:
        return
    for each in seen.rollout.groups.values():
        for pod in each.pods_of(each.moves.drain):
            why = "created from an older template"
            event = drain_event(pod, f", which was {why}", f" that were {why}")
            yield from patch_pod(seen, pod, draining_now(seen), event)
        for pod in each.pods_of(each.leaving):
            since = draining_since((pod,))
            if since is not None and since > seen.now:
                yield from patch_pod(seen, pod, draining_now(seen))


def with_ray(plan: Plan, seen: ClusterObservation) -> Plan:
    """Return the plan with commands for Ray; it remembers the commanded nodes.

    Pods that are being deleted by others are drained by a command of their own: they have less
    time, and their number may be large.
    """
    head = seen.ray.head
    if head is None or not is_drained_or_rolled(seen) or plan.commit is not None or plan.lookups:
        return plan
    memory = seen.history.drains
    if memory.head != head:
        memory = DrainMemory(head)
    commanded, commands, events = dict(memory.commands), list[HeadCommand](), list(plan.events)
    for leaving in (_leaving(seen), _deleted(seen)):
        nodes: dict[str, datetime] = {}
        for pod, until in leaving:
            node = seen.ray.node_of(pod)
            if node is not None and node.alive and node.id not in commanded:
                nodes[node.id] = until
                if pod.metadata.terminating:
                    events.append(taken_away(pod, seen.disruptions[pod.metadata.uid].why))
        if nodes:
            command = _drain(tuple(sorted(nodes)), min(nodes.values()), serving=_serve(seen))
            commanded |= dict.fromkeys(nodes, command.id)
            commands.append(HeadCommand(head, command))
    if not commands:
        return plan
    kept = replace(plan.memory, drains=DrainMemory(head, commanded))
    return replace(plan, commands=tuple(commands), memory=kept, events=tuple(events))


def _drain(nodes: tuple[str, ...], until: datetime, *, serving: bool) -> DrainNodes:
    return DrainNodes(f"drain-{suffix(*nodes)}", until, nodes, until, serving)


def taken_away(pod: Pod, why: str) -> Event:
    """Return the event of the drain of a pod that others take away."""
    reason = f" before it is taken away, because {why}"
    return drain_event(pod, reason, " before they are taken away")


def _serve(seen: ClusterObservation) -> bool:
    """Return whether the pods of the cluster are those of a RayService."""
    return any(labels.SERVE in (pod.metadata.labels or {}) for pod in seen.all_pods)


def is_drained_or_rolled(seen: ClusterObservation) -> bool:
    """Return whether pods are drained or replaced, for which Ray's nodes must be known."""
    rollout = seen.rollout
    if seen.disruptions or rollout is None:
        return bool(seen.disruptions)
    return rollout.is_leaving or rollout.verdict not in AT_REST | {Verdict.PAUSED}


def _leaving(seen: ClusterObservation) -> Iterator[tuple[Pod, datetime]]:
    """Yield the pods that the operator drains, and when the drain of each is over."""
    if seen.rollout is None:
        return
    limit = timedelta(seconds=seen.rollout.settings.drain_timeout_seconds)
    for each in seen.rollout.groups.values():
        for pod in each.pods_of(each.leaving):
            since = draining_since((pod,))
            if since is not None:
                yield pod, since + (UNLIMITED if is_announced(pod) else limit)


def _deleted(seen: ClusterObservation) -> Iterator[tuple[Pod, datetime]]:
    """Yield the pods that others delete, and when their processes are killed."""
    for pod in seen.all_workers:
        disruption = seen.disruptions.get(pod.metadata.uid)
        if disruption is not None and disruption.until is not None:
            yield pod, disruption.until
