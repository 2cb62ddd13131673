"""A scheduler: which node a pod goes to, or why it goes to none, in kube-scheduler's words.

It knows requests, taints, selectors, node affinity, spread and claims, but neither affinity between
pods nor priorities: nothing is preempted. A decision counts at once, so that two pods do not get
the same room.
"""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from controller.apimachinery.quantity import InvalidQuantity, parse_quantity
from controller.kube.resources import CLAIMS
from devcluster.nodes.components import ANNOTATION_PREFIX, ComponentContext
from devcluster.nodes.objects import NODES, ScheduledNode
from devcluster.nodes.pods import PODS, KubeletPod, NodeRequirement
from informers import Added, Deleted, Notification, Updated

Json = dict[str, Any]
Amounts = Counter[str]
"""Amounts of resources by name, in billionths."""

LOST: Final = ANNOTATION_PREFIX + "lost"
_NOT_ENFORCED: Final = frozenset({"cpu", "memory"})
_UNREACHABLE: Final[Json] = {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}
_HELPLESS: Final = "Preemption is not helpful for scheduling"
_NO_VICTIMS: Final = "No preemption victims found for incoming pod"


class Unschedulable(msgspec.Struct, frozen=True):
    """No node takes a pod; the message says why of each."""

    message: str


class Scheduler:
    """Chooses nodes for pods.

    Args:
        overcommits: whether CPU and memory are not enforced on the nodes, so that each pod only
            has to fit alone.
    """

    def __init__(self, context: ComponentContext, *, overcommits: bool = False) -> None:
        self._nodes = context.caches.informer(NODES).lister
        self._claims = context.caches.informer(CLAIMS).lister
        self._placed = Placements(_NOT_ENFORCED if overcommits else frozenset())
        context.caches.informer(PODS).add_handler(self._placed, name="scheduler")

    def choose(self, pod: KubeletPod) -> str | Unschedulable:
        """Return the node for a pod; it counts there from now on, or until the next call for it."""
        self._placed.remove(pod.metadata.uid)
        nodes = sorted(self._nodes.list(), key=lambda node: node.metadata.name)
        if not nodes:
            return Unschedulable("no nodes available to schedule pods")
        if missing := self._missing_claim(pod):
            return _verdict(nodes, [missing], Counter({_HELPLESS: len(nodes)}))
        spread = _Spread(pod, nodes, self._placed)
        wanted = requests_of(pod)
        reasons, preemption = Counter[str](), Counter[str]()
        fitting: list[tuple[float, int, str]] = []
        for node in nodes:
            offered = _amounts(node.status.allocatable or node.status.capacity or {})
            used = self._placed.used.get(node.metadata.name, Amounts())
            free = {name: amount - used[name] for name, amount in offered.items()}
            if problem := _unfit(pod, node):
                reasons[problem] += 1
                preemption[_HELPLESS] += 1
            elif short := _insufficient(wanted, free):
                reasons.update(short)
                never = _insufficient(wanted, offered)
                preemption[_HELPLESS if never else _NO_VICTIMS] += 1
            elif problem := spread.problem(node):
                reasons[problem] += 1
                preemption[_NO_VICTIMS] += 1
            else:
                tie = zlib.crc32(f"{pod.metadata.uid} {node.metadata.name}".encode())
                fitting.append((_share_used(node, free), tie, node.metadata.name))
        if not fitting:
            listed = sorted(f"{count} {reason}" for reason, count in reasons.items())
            return _verdict(nodes, listed, preemption)
        name = min(fitting)[2]
        self._placed.put(name, pod)
        return name

    def _missing_claim(self, pod: KubeletPod) -> str:
        for volume in pod.spec.volumes:
            claim: Json = volume.get("persistentVolumeClaim") or {}
            name: str = claim.get("claimName", "")
            if name and self._claims.get(f"{pod.metadata.namespace}/{name}") is None:
                return f'persistentvolumeclaim "{name}" not found'
        return ""


class Placements:
    """The pods on each node, with those that are about to be there, as the cache changes.

    Attributes:
        used: what the pods of a node request together.
    """

    def __init__(self, not_enforced: frozenset[str]) -> None:
        self.used: defaultdict[str, Amounts] = defaultdict(Amounts)
        self._not_enforced = not_enforced
        self._pods: defaultdict[str, dict[str, KubeletPod]] = defaultdict(dict)  # by node and uid
        self._node_of: dict[str, tuple[str, Amounts]] = {}  # by uid, with what was counted

    def on_node(self, node: ScheduledNode) -> list[KubeletPod]:
        """Return the pods of a node."""
        return list(self._pods.get(node.metadata.name, {}).values())

    def put(self, node: str, pod: KubeletPod) -> None:
        """Count a pod on a node."""
        uid = pod.metadata.uid
        self.remove(uid)
        wanted = requests_of(pod)
        counted = Amounts({name: wanted[name] for name in wanted if name not in self._not_enforced})
        self.used[node].update(counted)
        self._pods[node][uid] = pod
        self._node_of[uid] = node, counted

    def remove(self, uid: str) -> None:
        """Count a pod no more."""
        if uid in self._node_of:
            node, counted = self._node_of.pop(uid)
            self.used[node].subtract(counted)
            del self._pods[node][uid]

    def __call__(self, change: Notification[KubeletPod]) -> None:
        """Count a pod that is on a node, no longer one that has finished, gone or been replaced."""
        match change:
            case Deleted(obj):
                self.remove(obj.metadata.uid)
                return
            case Updated(old, obj):
                if old.metadata.uid != obj.metadata.uid:
                    self.remove(old.metadata.uid)
            case Added(obj):
                pass
        if obj.is_finished:
            self.remove(obj.metadata.uid)
        elif obj.spec.node_name:
            self.put(obj.spec.node_name, obj)


def _verdict(
    nodes: Sequence[ScheduledNode], reasons: list[str], preemption: Counter[str]
) -> Unschedulable:
    available = f"0/{len(nodes)} nodes are available"
    helps = ", ".join(sorted(f"{count} {reason}" for reason, count in preemption.items()))
    return Unschedulable(f"{available}: {', '.join(reasons)}. preemption: {available}: {helps}.")


# Resources.


def requests_of(pod: KubeletPod) -> Amounts:
    """Return what a pod requests, in billionths: its containers at once, or its largest start."""
    beside, largest = Amounts(), Amounts()
    for container in pod.spec.init_containers:
        own = _amounts(container.resources.requests or {})
        if container.is_sidecar:
            beside += own
            own = Amounts()
        largest |= beside + own
    own = (_amounts(container.resources.requests or {}) for container in pod.spec.containers)
    return (sum(own, beside) | largest) + _amounts({"pods": "1"})


def _amounts(quantities: Mapping[str, str | float]) -> Amounts:
    found = Amounts()
    for name, quantity in quantities.items():
        try:
            found[name] = parse_quantity(quantity).nanos
        except InvalidQuantity:
            continue
    return found


def _insufficient(wanted: Amounts, free: Mapping[str, int]) -> list[str]:
    """Return what a node has too little of; one that says nothing of CPU or memory has enough."""
    short = [
        name
        for name, amount in wanted.items()
        if amount > free.get(name, 0 if "/" in name else amount)
    ]
    return ["Too many pods" if name == "pods" else f"Insufficient {name}" for name in short]


def _share_used(node: ScheduledNode, free: Mapping[str, int]) -> float:
    """Return the larger share of CPU and memory that is used; the emptiest node is chosen."""
    all_of = _amounts(node.status.allocatable or {})
    shares = (1 - free[name] / all_of[name] for name in _NOT_ENFORCED if all_of.get(name))
    return max(shares, default=0.0)


# Taints and labels of nodes.


def _unfit(pod: KubeletPod, node: ScheduledNode) -> str:
    """Return why a node does not take a pod whatever runs there; empty if it may."""
    if node.spec.unschedulable:
        return "node(s) were unschedulable"
    lost = (node.metadata.annotations or {}).get(LOST) == "true"
    for taint in (*node.spec.taints, *([_UNREACHABLE] if lost else [])):
        if taint.get("effect") in {"NoSchedule", "NoExecute"} and not _tolerates(pod, taint):
            return f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value', '')}}}"
    if not has_required_labels(pod, node.metadata.labels or {}):
        return "node(s) didn't match Pod's node affinity/selector"
    return ""


def _tolerates(pod: KubeletPod, taint: Json) -> bool:
    return any(
        each.get("effect") in {None, "", taint.get("effect")}
        and (
            (not each.get("key") and each.get("operator") == "Exists")
            or (
                each.get("key") == taint["key"]
                and (
                    each.get("operator") == "Exists"
                    or each.get("value", "") == taint.get("value", "")
                )
            )
        )
        for each in pod.spec.tolerations
    )


def has_required_labels(pod: KubeletPod, labels: Mapping[str, str]) -> bool:
    """Return whether a node with these labels meets the selector and the affinity of the pod."""
    selector = (pod.spec.node_selector or {}).items()
    if any(labels.get(key) != value for key, value in selector):
        return False
    terms = pod.spec.required_node_terms
    return not terms or any(
        all(_is_met(each, labels) for each in term.match_expressions) for term in terms
    )


def _is_met(requirement: NodeRequirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _is_beyond(value, requirement)
        case _:
            return False


def _is_beyond(value: str | None, requirement: NodeRequirement) -> bool:
    try:
        number, limit = int(value or ""), int(requirement.values[0])
    except (ValueError, IndexError):
        return False
    return number > limit if requirement.operator == "Gt" else number < limit


# Other pods.


class _Spread:
    """What the pods that are placed mean for another one, by its topology spread constraints."""

    def __init__(self, pod: KubeletPod, nodes: Sequence[ScheduledNode], placed: Placements) -> None:
        self._pod = pod
        self._nodes = nodes
        self._placed = placed
        self._constraints = [
            (each, self._counts(each))
            for each in pod.spec.topology_spread_constraints
            if each.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule"
        ]

    def problem(self, node: ScheduledNode) -> str:
        """Return why the pod may not be beside those of the node; empty if it may."""
        labels = node.metadata.labels or {}
        for constraint, counts in self._constraints:
            key = constraint["topologyKey"]
            violated = "node(s) didn't match pod topology spread constraints"
            if key not in labels:
                return f"{violated} (missing required label)"
            own = _selects(constraint.get("labelSelector"), self._pod)
            skew = counts.get(labels[key], 0) + own - min(counts.values(), default=0)
            if skew > constraint.get("maxSkew", 1):
                return violated
        return ""

    def _counts(self, constraint: Json) -> Counter[str]:
        """Return how many pods are in each part of the topology that the pod may go to."""
        key, counts = constraint["topologyKey"], Counter[str]()
        for node in self._nodes:
            labels = node.metadata.labels or {}
            if key in labels and has_required_labels(self._pod, labels):
                counts[labels[key]] += 0
        for node in self._nodes:
            value = (node.metadata.labels or {}).get(key, "")
            if value in counts:
                counts[value] += sum(
                    pod.metadata.namespace == self._pod.metadata.namespace
                    and _selects(constraint.get("labelSelector"), pod)
                    for pod in self._placed.on_node(node)
                )
        return counts


def _selects(selector: Json | None, pod: KubeletPod) -> bool:
    """Return whether a label selector selects a pod; none selects nothing."""
    if selector is None:
        return False
    labels = pod.metadata.labels or {}
    exact: dict[str, str] = selector.get("matchLabels") or {}
    rules = msgspec.convert(selector.get("matchExpressions") or [], list[NodeRequirement])
    return all(labels.get(key) == value for key, value in exact.items()) and all(
        _is_met(rule, labels) for rule in rules
    )
