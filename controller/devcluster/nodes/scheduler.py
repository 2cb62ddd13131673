"""A scheduler: which node a pod goes to, or why it goes to none, in kube-scheduler's words.

It knows requests, taints, selectors, required affinity, spread and claims, no priorities: nothing
is preempted. A decision counts at once, so that two pods do not get the same room.
"""

from __future__ import annotations

import zlib
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from controller.apimachinery.quantity import InvalidQuantity, parse_quantity
from controller.devcluster.nodes.objects import NODES
from controller.devcluster.nodes.pods import PODS, NodeRequirement
from controller.devcluster.nodes.settings import ANNOTATION_PREFIX
from controller.kube.resources import CLAIMS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from controller.devcluster.nodes.components import ComponentContext
    from controller.devcluster.nodes.objects import ScheduledNode
    from controller.devcluster.nodes.pods import KubeletPod

Json = dict[str, Any]
Amounts = Counter[str]
"""Amounts of resources by name, in billionths."""

LOST: Final = ANNOTATION_PREFIX + "lost"
_BY_NODE: Final = "node that has room for it"
_NOT_ENFORCED: Final = frozenset({"cpu", "memory"})
_UNREACHABLE: Final[Json] = {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}
_HELPLESS: Final = "Preemption is not helpful for scheduling"
_NO_VICTIMS: Final = "No preemption victims found for incoming pod"


@dataclass(frozen=True, slots=True)
class Unschedulable:
    """No node takes a pod; the message says why of each."""

    message: str


class Scheduler:
    """Chooses nodes for pods.

    Args:
        context: caches.
        overcommits: whether CPU and memory are not enforced on the nodes, so that each pod only
            has to fit alone.
    """

    def __init__(self, context: ComponentContext, *, overcommits: bool = False) -> None:
        self._overcommits = overcommits
        self._nodes = context.caches.informer(NODES).lister
        self._claims = context.caches.informer(CLAIMS).lister
        pods = context.caches.informer(PODS)
        pods.add_index(_BY_NODE, lambda pod: (pod.spec.node_name,))
        self._pods = pods.lister
        self._assumed: dict[str, tuple[str, KubeletPod]] = {}  # by uid, until the cache shows it
        self._requests: dict[str, Amounts] = {}  # of the pods placed, by uid

    def choose(self, pod: KubeletPod) -> str | Unschedulable:
        """Return the node for a pod; it counts there from now on, or until the next call for it."""
        self._assumed.pop(pod.metadata.uid, None)
        nodes = sorted(self._nodes.list(), key=lambda node: node.metadata.name)
        if not nodes:
            return Unschedulable("no nodes available to schedule pods")
        if missing := self._missing_claim(pod):
            return _verdict(nodes, [missing], Counter({_HELPLESS: len(nodes)}))
        by_node = self._placed()
        neighbours = _Neighbours(pod, nodes, by_node)
        wanted = requests_of(pod)
        reasons, preemption = Counter[str](), Counter[str]()
        fitting: list[tuple[float, int, str]] = []
        for node in nodes:
            free = self._free(node, by_node.get(node.metadata.name, ()))
            if problem := _unfit(pod, node):
                reasons[problem] += 1
                preemption[_HELPLESS] += 1
            elif short := _insufficient(wanted, free):
                reasons.update(short)
                never = _insufficient(wanted, self._free(node, ()))
                preemption[_HELPLESS if never else _NO_VICTIMS] += 1
            elif problem := neighbours.problem(node):
                reasons[problem] += 1
                preemption[_NO_VICTIMS] += 1
            else:
                tie = zlib.crc32(f"{pod.metadata.uid} {node.metadata.name}".encode())
                fitting.append((_share_used(node, free), tie, node.metadata.name))
        if not fitting:
            listed = sorted(f"{count} {reason}" for reason, count in reasons.items())
            return _verdict(nodes, listed, preemption)
        name = min(fitting)[2]
        self._assumed[pod.metadata.uid] = (name, pod)
        return name

    def _placed(self) -> dict[str, list[KubeletPod]]:
        """Return the pods on each node, with those that are about to be there."""
        placed: dict[str, list[KubeletPod]] = {}
        for uid, (node, pod) in list(self._assumed.items()):
            present = self._pods.get(pod.metadata.key)
            if present is None or present.metadata.uid != uid or present.spec.node_name:
                del self._assumed[uid]
            else:
                placed.setdefault(node, []).append(pod)
        for node in self._nodes.list():
            name = node.metadata.name
            running = (pod for pod in self._pods.by_index(_BY_NODE, name) if not pod.is_finished)
            placed.setdefault(name, []).extend(running)
        self._requests = {
            pod.metadata.uid: self._requests.get(pod.metadata.uid) or requests_of(pod)
            for pods in placed.values()
            for pod in pods
        }
        return placed

    def _free(self, node: ScheduledNode, pods: Iterable[KubeletPod]) -> dict[str, int]:
        """Return what is left of each resource that the node offers."""
        free = _amounts(node.status.allocatable or node.status.capacity or {})
        for pod in pods:
            for name, amount in self._requests[pod.metadata.uid].items():
                if name in free and not (self._overcommits and name in _NOT_ENFORCED):
                    free[name] -= amount
        return free

    def _missing_claim(self, pod: KubeletPod) -> str:
        for volume in pod.spec.volumes:
            claim: Json = volume.get("persistentVolumeClaim") or {}
            name: str = claim.get("claimName", "")
            if name and self._claims.get(f"{pod.metadata.namespace}/{name}") is None:
                return f'persistentvolumeclaim "{name}" not found'
        return ""


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


# Other pods: spread, affinity and anti-affinity.


class _Neighbours:
    """What the pods that are placed mean for another one."""

    def __init__(
        self,
        pod: KubeletPod,
        nodes: Sequence[ScheduledNode],
        by_node: Mapping[str, Sequence[KubeletPod]],
    ) -> None:
        self._pod = pod
        self._nodes = nodes
        self._by_node = by_node
        affinity = pod.spec.affinity
        self._near = _required(affinity.pod_affinity if affinity else None)
        self._apart = _required(affinity.pod_anti_affinity if affinity else None)
        self._spread = [
            each
            for each in pod.spec.topology_spread_constraints
            if each.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule"
        ]

    def problem(self, node: ScheduledNode) -> str:
        """Return why the pod may not be beside those of the node; empty if it may."""
        labels = node.metadata.labels or {}
        for constraint in self._spread:
            if problem := self._uneven(constraint, labels):
                return f"node(s) didn't match pod topology spread constraints{problem}"
        if any(not self._is_near(term, labels) for term in self._near):
            return "node(s) didn't match pod affinity rules"
        if any(self._count(term, labels, self._pod) for term in self._apart):
            return "node(s) didn't match pod anti-affinity rules"
        if any(_repels(other, self._pod) for other in self._others_apart(labels)):
            return "node(s) didn't satisfy existing pods anti-affinity rules"
        return ""

    def _uneven(self, constraint: Json, labels: Mapping[str, str]) -> str | None:
        key = constraint["topologyKey"]
        if key not in labels:
            return " (missing required label)"
        eligible = [
            each.metadata.labels or {}
            for each in self._nodes
            if has_required_labels(self._pod, each.metadata.labels or {})
        ]
        counts = {
            each[key]: self._count(constraint, each, self._pod) for each in eligible if key in each
        }
        own = _selects(constraint.get("labelSelector"), self._pod)
        skew = counts.get(labels[key], 0) + own - min(counts.values(), default=0)
        return "" if skew > constraint.get("maxSkew", 1) else None

    def _is_near(self, term: Json, labels: Mapping[str, str]) -> bool:
        if term["topologyKey"] not in labels:
            return False
        if self._count(term, labels, self._pod):
            return True
        placed = (self._by_node.get(node.metadata.name, ()) for node in self._nodes)
        anywhere = any(self._matching(term, pods, self._pod) for pods in placed)
        return not anywhere and _selects(term.get("labelSelector"), self._pod)  # the first one

    def _count(self, term: Json, labels: Mapping[str, str], about: KubeletPod) -> int:
        """Return how many pods of a term are in the same part of its topology."""
        return sum(
            len(self._matching(term, pods, about))
            for pods in self._beside(term["topologyKey"], labels)
        )

    def _beside(self, key: str, labels: Mapping[str, str]) -> Iterator[Sequence[KubeletPod]]:
        if key in labels:
            for node in self._nodes:
                if (node.metadata.labels or {}).get(key) == labels[key]:
                    yield self._by_node.get(node.metadata.name, ())

    def _matching(
        self, term: Json, pods: Sequence[KubeletPod], about: KubeletPod
    ) -> list[KubeletPod]:
        namespaces = term.get("namespaces") or [about.metadata.namespace]
        selector = term.get("labelSelector")
        return [
            pod for pod in pods if pod.metadata.namespace in namespaces and _selects(selector, pod)
        ]

    def _others_apart(self, labels: Mapping[str, str]) -> Iterator[tuple[KubeletPod, Json]]:
        for node in self._nodes:
            for other in self._by_node.get(node.metadata.name, ()):
                affinity = other.spec.affinity
                for term in _required(affinity.pod_anti_affinity if affinity else None):
                    key = term["topologyKey"]
                    if key in labels and (node.metadata.labels or {}).get(key) == labels[key]:
                        yield other, term


def _required(affinity: Json | None) -> list[Json]:
    return (affinity or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or []


def _repels(placed: tuple[KubeletPod, Json], pod: KubeletPod) -> bool:
    other, term = placed
    namespaces = term.get("namespaces") or [other.metadata.namespace]
    return pod.metadata.namespace in namespaces and _selects(term.get("labelSelector"), pod)


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
