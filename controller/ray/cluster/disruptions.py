"""Workers that others take away: they are drained in Ray before their processes end.

`disruption_of` decides which these are, and why. A pod that is being deleted has until its deletion
timestamp. One whose eviction is only announced leaves the service and is drained; the operator
deletes it when Ray has nothing left on it, and else leaves its end to whoever announced it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from msgspec.structs import replace

from controller.apimachinery.metadata import ownership_text
from controller.apimachinery.patches import replacement
from controller.kube.objects import Node, Pod, PodDisruptionBudget
from controller.kube.resources import DISRUPTION_BUDGETS, NODES, PODS
from controller.ray.api import labels, lifetime_options
from controller.ray.api.lifetime_options import grace_of
from controller.ray.api.names import HEAD_POD_READY
from controller.ray.api.pod_state import Disruption, disruption_of, why_leaving
from controller.ray.api.raycluster import RAYCLUSTERS, ClusterSpec
from controller.ray.children import (
    Body,
    Child,
    ChildState,
    DesiredFields,
    ObservedChild,
    OwnedKeys,
    OwnerConflict,
    body_of,
    create_child,
    delete_child,
    observe_child,
    repair_child,
)
from controller.ray.cluster.children import Note, child_metadata, pod_selector
from controller.ray.cluster.idle import idle_outlook
from controller.ray.cluster.observation import (
    AnyCluster,
    ClusterObservation,
    DesiredCluster,
    ObservedBudgets,
    soonest,
)
from controller.ray.cluster.pods import draining_now, draining_since, patch_pod
from controller.ray.cluster.rolling_units import taken_away
from controller.ray.dashboard.serve import RayActivity
from controller.ray.head import Identity
from controller.runtime.kind import CacheReader, Owned, References, owned_by
from controller.runtime.plan import Event, Plan, Write

_NODE_INDEX: Final = "node"


def _node_of(pod: Pod) -> Sequence[str]:
    return (pod.spec.node_name,) if pod.spec.node_name else ()


def _if_leaving(node: Node) -> Sequence[str]:
    """Return the name of a node whose pods will be taken away: all others concern nobody."""
    return (node.metadata.name,) if why_leaving(node) else ()


_RAY_NODES: Final = replace(NODES, part="of Ray pods")

OF_NODES: Final = (
    Owned(
        _RAY_NODES,
        references=References(_NODE_INDEX, _node_of, _if_leaving, through=PODS),
        optional=True,
    ),
)
"""The nodes of a cluster's pods, for operators that may read nodes."""


def observe_disruptions(seen: ClusterObservation, reads: CacheReader) -> dict[str, Disruption]:
    """Return the disruptions of pods by uid; none of pods that this operator has deleted."""
    if seen.is_ending:
        return {}
    reads_nodes = seen.settings.watch_nodes and reads.serves(_RAY_NODES)
    found: dict[str, Disruption] = {}
    for pod in seen.all_pods:
        if pod.metadata.uid in seen.history.condemned:
            continue
        name = pod.spec.node_name if reads_nodes else ""
        disruption = disruption_of(pod, reads.get(_RAY_NODES, name) if name else None)
        if disruption is not None:
            found[pod.metadata.uid] = disruption
    return found


def announce(seen: ClusterObservation, taken: Collection[str]) -> Iterator[Write]:
    """Begin the drain of workers that will be taken away and are not yet being deleted.

    `taken` are the names of pods that this plan deletes or drains already.
    """
    for head in seen.heads:
        if not head.metadata.terminating and head.metadata.name not in taken:
            yield from _mark(seen, head)
    for pod in seen.all_workers:
        disruption, meta = seen.disruptions.get(pod.metadata.uid), pod.metadata
        if disruption is None or meta.terminating or meta.name in taken:
            continue
        if draining_since((pod,)) is None:
            stamps = draining_now(seen) | {labels.DISRUPTION: disruption.why}
            serves, event = labels.SERVE in (meta.labels or {}), taken_away(pod, disruption.why)
            yield from patch_pod(seen, pod, stamps, event, leaves_service=serves)


def _mark(seen: ClusterObservation, head: Pod) -> Iterator[Write]:
    """Write on a head that will be taken away why, for people and for its RayService.

    It is not drained: whatever else runs on the cluster needs it until its end.
    """
    meta, disruption = head.metadata, seen.disruptions.get(head.metadata.uid)
    why = disruption.why if disruption is not None else None
    if (meta.annotations or {}).get(labels.DISRUPTION) == why:
        return
    note = f"Head pod {meta.name} will be taken away, because {why}"
    event = Event("Warning", "DisruptedHeadPod", "Update", note) if why is not None else None
    yield from patch_pod(seen, head, {labels.DISRUPTION: why}, event)


# What evictions, drained nodes and disuse would do to a cluster, in sentences for `manta plan`.
#
# They come from the budgets, the surge and the clock that the plans of the operator use.


def cluster_outlook(seen: AnyCluster) -> Iterator[str]:
    """Yield a sentence about evictions, replacements and idleness each, if the cluster has any."""
    if not isinstance(seen, ClusterObservation):
        return
    spec = seen.desired.spec
    if spec.disruption_budgets is not None:
        yield _evictions(seen, spec)
    yield from _replacements(spec)
    if unused := idle_outlook(seen):
        yield unused


def _evictions(seen: ClusterObservation, spec: ClusterSpec) -> str:
    least = {
        child.body["spec"]["selector"]["matchLabels"].get(labels.GROUP, ""): child.body["spec"]
        for child, _ in seen.budgets.possible
    }
    parts = [f"head {_allowed(1, least.get('', {}).get('minAvailable', 0))}"]
    for group in spec.worker_group_specs:
        if pods := group.desired_pods:
            kept = least.get(group.group_name, {}).get("minAvailable", 0)
            parts.append(f"group {group.group_name} {_allowed(pods, kept)}")
    why = "".join(f"; {each.message}" for each in seen.budgets.notes)
    return f"evictions while something runs on the cluster: {', '.join(parts)}{why}"


def _allowed(pods: int, kept: int) -> str:
    if kept >= pods:
        return "refused"
    return f"at most {pods - kept} of {pods} at a time" if kept > 0 else "allowed"


def _replacements(spec: ClusterSpec) -> Iterator[str]:
    options = spec.graceful_termination_options
    if options is None:
        return
    for group in spec.worker_group_specs:
        if not group.desired_replicas:
            continue
        surge = min(spec.surge_of(group.desired_replicas), group.desired_replicas)
        unit = "worker" if group.hosts == 1 else f"replica of {group.hosts} workers"
        when = f"at once, for at most {surge} at a time" if surge else "when it is gone"
        seconds = grace_of(group.template["spec"], options)
        yield (
            f"a {unit} of group {group.group_name} that is evicted or drained has {seconds} s to "
            f"finish; its replacement is created {when}"
        )


# The PodDisruptionBudgets of a cluster: they exist while something runs there, and no longer.
#
# Ray's own answers decide. The head and the replicas of several hosts may not be evicted at all;
# of other groups a share may, where the specification gives one. The numbers are computed here,
# because the API server computes percentages only of what has the subresource `scale`. Two budgets
# for one pod would make all its evictions fail: where users have one, theirs alone counts.

OF_USERS: Final = "of users"
"""Name of the index of budgets by namespace, but for those of clusters, which select only theirs.

There may be thousands of these, and each plan looks at all that it finds.
"""

_NOT_CREATED: Final = "FailedToCreatePodDisruptionBudget"
_LOOKED_AGAIN: Final = 60.0
"""Seconds until budgets of others are looked for again: by their labels, no event tells of them."""

_WITHOUT_HEAD: Final = timedelta(minutes=5)
"""Time for which budgets stay while no head is ready and Ray does not answer."""


def namespace_of_users(budget: PodDisruptionBudget) -> tuple[str, ...]:
    """Return the namespace of a budget that no RayCluster owns."""
    owner = budget.metadata.controller
    is_ours = owner is not None and owner.kind == RAYCLUSTERS.kind
    return () if is_ours else (budget.metadata.namespace,)


def selected_cluster(budget: PodDisruptionBudget) -> tuple[str, ...]:
    """Return the key of the cluster that a budget selects by name, whoever has made it."""
    wanted: Any = (budget.spec.selector or {}).get("matchLabels") or {}
    name = wanted.get(labels.CLUSTER)
    return (f"{budget.metadata.namespace}/{name}",) if name else ()


def observe_budgets(seen: ClusterObservation, reads: CacheReader) -> ObservedBudgets:
    """Observe the budgets that the cluster has or may have, and those of others."""
    desired = seen.desired
    identity, is_asked = desired.identity, desired.spec.disruption_budgets is not None
    if not reads.serves(DISRUPTION_BUDGETS):
        return ObservedBudgets(notes=(_UNSERVED,) if is_asked else ())
    own = owned_by(reads, DISRUPTION_BUDGETS, identity)
    if not own and not is_asked:
        return ObservedBudgets()
    found: list[tuple[Child, ObservedChild]] = []
    notes: list[Note] = []
    foreign = [
        each
        for each in reads.by_index(DISRUPTION_BUDGETS, OF_USERS, identity.namespace)
        if not each.metadata.terminating
    ]
    for child, group in _desired(desired):
        pods = seen.heads if group == labels.HEAD_GROUP else seen.workers.get(group, ())
        other = _selecting(foreign, pods)
        observed = observe_child(child, identity.namespace, identity.uid, reads)
        if other is not None:
            notes.append(_two_budgets(child, other))
        elif observed.state is ChildState.OWNER_CONFLICT:
            meta = observed.present.metadata if observed.present is not None else None
            sentence = f"{child} exists and {ownership_text(meta)}; delete it, or rename it"
            notes.append(Note(_NOT_CREATED, sentence))
        else:
            found.append((child, observed))
    kept = {child.name for child, _ in found}
    surplus = (each for each in own if each.metadata.name not in kept)
    return ObservedBudgets(
        tuple(found),
        tuple(each for each in surplus if not each.metadata.terminating),
        tuple(notes),
    )


def with_budgets(plan: Plan, seen: ClusterObservation) -> Plan:
    """Return the plan with the writes of budgets."""
    if plan.lookups:
        return plan
    in_use, seconds = _is_in_use(seen)
    look_again = _LOOKED_AGAIN if asks_for_budgets(seen) else None
    writes = seen.settled(_writes(seen, in_use=in_use))
    return replace(
        plan,
        independent=(*plan.independent, *writes),
        requeue_after=soonest(plan.requeue_after, seconds, look_again),
    )


def asks_for_budgets(seen: ClusterObservation) -> bool:
    """Return whether the cluster is to have budgets while it is in use."""
    return seen.desired.spec.disruption_budgets is not None and not seen.is_ending


def _is_in_use(seen: ClusterObservation) -> tuple[bool | None, float | None]:
    """Return whether something runs there, and when that may change; None while Ray is silent.

    What ran before a silence is taken to run on, but not for ever without a head.
    """
    if seen.is_ending:
        return False, None
    if seen.ray.assumed:
        return bool(seen.heads), None
    answer = seen.ray.activity
    if answer is not None and answer.failing_since is None:
        value = answer.value
        if isinstance(value, RayActivity):
            return bool(value.uses), None
    since = seen.since(HEAD_POD_READY)
    if since is None or seen.is_true(HEAD_POD_READY):
        return None, None
    left = (since + _WITHOUT_HEAD - seen.now).total_seconds()
    return (None, left) if left > 0 else (False, None)


def _writes(seen: ClusterObservation, *, in_use: bool | None) -> Iterator[Write]:
    namespace = seen.desired.identity.namespace
    for child, observed in seen.budgets.possible:
        if observed.state is ChildState.MISSING and in_use:
            yield create_child(namespace, child, seen.now)
        elif observed.state is not ChildState.PRESENT or observed.present is None:
            continue
        elif in_use is False:
            yield delete_child(namespace, child.resource, observed.present, _UNUSED)
        elif observed.drift is not None and (
            write := repair_child(namespace, observed.drift, seen.now)
        ):
            yield write
    for each in seen.budgets.surplus:
        yield delete_child(namespace, DISRUPTION_BUDGETS, each)


_UNUSED: Final = "because nothing runs on the cluster"


# The budgets of a cluster in use.


def _desired(desired: DesiredCluster) -> Iterator[tuple[Child, str]]:
    """Yield the budgets of a cluster in use, each with the name of its group."""
    options, identity = desired.spec.disruption_budgets, desired.identity
    if options is None:
        return
    yield _budget(identity, "", {"minAvailable": 1}), labels.HEAD_GROUP
    percent = options.workers_max_unavailable_percent
    for group in desired.spec.worker_group_specs:
        pods = group.desired_pods
        spec: Body = {"minAvailable": pods}  # one pod less ends the whole replica
        if group.hosts == 1:
            if percent is None:
                continue
            # rounded up, as the API server does it, so that a drain goes on
            spec["minAvailable"] = pods - -(-pods * percent // 100)
            # a worker that does not start would hinder the drain for ever
            spec["unhealthyPodEvictionPolicy"] = "AlwaysAllow"
        if spec["minAvailable"] > 0:
            yield _budget(identity, group.group_name, spec), group.group_name


def _budget(identity: Identity, group: str, spec: Body) -> Child:
    name = f"{identity.name}-workers-{group}".lower() if group else f"{identity.name}-head"
    spec = {"selector": {"matchLabels": pod_selector(identity, group)}, **spec}
    body = body_of(DISRUPTION_BUDGETS, child_metadata(identity, name), spec=spec)
    return Child(DISRUPTION_BUDGETS, body, OwnerConflict.IGNORE, True, _fields)


def _fields(
    body: Mapping[str, Any], present: PodDisruptionBudget, _formerly: OwnedKeys
) -> DesiredFields:
    """Return the desired fields: whatever others have added to the selector is removed."""
    spec: Body = body["spec"]
    selector = replacement(present.spec.selector or {}, spec["selector"])
    labels_of_ours = {"labels": body["metadata"]["labels"]}
    return DesiredFields({"metadata": labels_of_ours, "spec": {**spec, "selector": selector}})


# Budgets of others.


def _selecting(budgets: Sequence[PodDisruptionBudget], pods: Sequence[Pod]) -> str | None:
    """Return the name of a budget that selects one of the pods, None if there is none."""
    given = [pod.metadata.labels or {} for pod in pods]
    found = (
        each.metadata.name
        for each in budgets
        if any(_selects(each.spec.selector, pod_labels) for pod_labels in given)
    )
    return min(found, default=None)


def _selects(selector: Mapping[str, Any] | None, given: Mapping[str, str]) -> bool:
    """Return whether a selector selects; an empty one selects all, and none selects nothing."""
    if selector is None:
        return False
    wanted: Mapping[str, str] = selector.get("matchLabels") or {}
    rules: Sequence[Mapping[str, Any]] = selector.get("matchExpressions") or ()
    return wanted.items() <= given.items() and all(_meets(each, given) for each in rules)


def _meets(rule: Mapping[str, Any], given: Mapping[str, str]) -> bool:
    value, values = given.get(rule.get("key", "")), rule.get("values") or ()
    match rule.get("operator"):
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:
            return False


def _two_budgets(child: Child, other: str) -> Note:
    return Note(
        _NOT_CREATED,
        f"{child} is not created, because PodDisruptionBudget {other} selects the same pods, and "
        f"pods with two budgets cannot be evicted at all; delete that one, or remove "
        f"{lifetime_options.BUDGETS}",
    )


_UNSERVED: Final = Note(
    _NOT_CREATED,
    f"{lifetime_options.BUDGETS} has no effect: the API server does not serve {DISRUPTION_BUDGETS} "
    "in policy/v1, or the operator may not list them; grant it the verbs get, list, watch, create, "
    "patch and delete on them",
)
