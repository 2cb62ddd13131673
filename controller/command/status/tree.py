"""Makes trees and tables of objects.

States and causes are those that the operator has stored in the conditions. Where it has stored
none, as KubeRay's operator, the cause is diagnosed from the pods by the same function.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from controller.apimachinery.conditions import READY, find_condition, is_true
from controller.apimachinery.custom_object import (
    conditions_of,
    dig,
    mapping,
    mappings,
    parse,
    status_of,
)
from controller.apimachinery.quantity import ZERO, InvalidQuantity, Quantity, parse_quantity
from controller.command.status.objects import (
    USUAL,
    EventStatus,
    GroupStatus,
    ObjectStatus,
    Overview,
    PodStatus,
    Tree,
    claims_of,
    is_of_workspace,
    model_cause,
    model_detail,
    model_state,
    workloads_of,
)
from controller.command.status.reading import MODEL_KINDS, Seen, SeenEvent
from controller.kaito.api.workspace import WORKSPACES
from controller.kube.objects import KubeObject, Pod
from controller.kube.resources import Resource
from controller.ray.api import RAYCLUSTERS, RAYJOBS, labels
from controller.ray.api.names import (
    HEAD_POD_READY,
    PROVISIONED,
    REPLICA_FAILURE,
    SUSPENDED,
    SUSPENDING,
    RayObject,
)
from controller.ray.api.pod_state import group_of, is_head, is_ready
from controller.ray.api.raycluster import WorkerGroup
from controller.ray.api.raycronjob import RAYCRONJOBS
from controller.ray.diagnosis.pod import diagnose_pod
from controller.ray.diagnosis.reasons import REASONS, Cause, Severity
from controller.ray.diagnosis.reasons import SUSPENDED as SUSPENDED_REASON
from controller.ray.pods.environment import is_gpu, requests_of

MOST_EVENTS: Final = 10

_STARTING: Final = frozenset(each.name for each in REASONS if each.severity is Severity.IN_PROGRESS)
_USUAL: Final = frozenset({
    READY, HEAD_POD_READY, PROVISIONED, REPLICA_FAILURE, SUSPENDED, SUSPENDING,
    "UpgradeInProgress", "RollbackInProgress", *USUAL,
})  # fmt: skip
"""Conditions that an object always has; the others tell something whenever they are present."""
_OVER: Final = frozenset({"Complete", "UpToDate"})
"""Reasons of conditions that remain when what they told of is over."""
_WELL: Final = frozenset({"ready", "scheduled", "Complete", "Succeeded"})
"""States in which nothing is amiss."""
_FAILED: Final = frozenset({"Failed", "ValidationFailed"})
_ORIGIN: Final = (labels.NODE_TYPE, labels.ORIGIN_KIND, labels.ORIGIN_NAME)
"""Labels by which the pods of a submitter are recognised."""


def overview(seen: Seen, kind: Resource[Any] | None) -> Overview:
    """Return all objects, or those of one kind."""
    every = [(resource, obj) for resource, objects in seen.objects.items() for obj in objects]
    places = {obj.metadata.uid: _place(resource, obj) for resource, obj in every}
    rows = [
        ((*places.get(_owner(obj), ()), *places[obj.metadata.uid]), _status(resource, obj))
        for resource, obj in every
        if kind is None or resource is kind
    ]
    rows.sort(key=lambda row: row[0])
    return Overview(tuple(status for _, status in rows), tuple(seen.missing))


def tree(seen: Seen, resource: Resource[Any], obj: RayObject, now: datetime) -> Tree:
    """Return an object with all that belongs to it, and the last events about any of that."""
    found = _Branch(seen, now)
    status = found.of(resource, obj)
    events = last_events(each for each in seen.events if each.regarding.uid in found.uids)
    return Tree(status, events, tuple(seen.missing))


def last_events(events: Iterable[SeenEvent]) -> tuple[EventStatus, ...]:
    """Return the last of these events, the very last at the end."""
    ordered = sorted(events, key=lambda each: (each.last, each.metadata.name))
    return tuple(map(_event, ordered[-MOST_EVENTS:]))


class _Branch:
    """Builds a tree, and remembers the uids of all that is in it."""

    def __init__(self, seen: Seen, now: datetime) -> None:
        self._seen = seen
        self._now = now
        self._causes: dict[str, list[Cause]] = {}  # by the uid of the cluster
        self.uids: set[str] = set()

    def of(self, resource: Resource[Any], obj: RayObject, detail: str = "") -> ObjectStatus:
        self.uids.add(obj.metadata.uid)
        status = _status(resource, obj)
        children = tuple(self._children(resource, obj))
        groups, others = (), tuple(self._submitters(resource, obj))
        if resource is RAYCLUSTERS:
            pods = [each for each in self._seen.pods if _is_of_cluster(each, obj)]
            groups, others = self._groups(obj, pods)
            self.uids.update(each.metadata.uid for each in pods)
        elif resource is WORKSPACES:
            children = tuple(self._workspace(obj))
        return msgspec.structs.replace(
            status,
            detail=", ".join(filter(None, (detail, status.detail))),
            cause=self._cause(obj, status, children),
            children=children,
            groups=groups,
            pods=others,
        )

    def _cause(self, obj: RayObject, status: ObjectStatus, children: Sequence[ObjectStatus]) -> str:
        """Return the stored cause; else that of a pod, or of what belongs to the object."""
        conditions = conditions_of(obj)
        if find_condition(conditions, READY) or is_true(conditions, REPLICA_FAILURE):
            return status.cause
        if status.kind == WORKSPACES.kind:  # its operator has stored one
            return status.cause
        if causes := self._causes.get(obj.metadata.uid):
            return min(causes, key=lambda cause: cause.urgency).message
        if status.cause or status.state in _WELL:
            return status.cause
        return next((each.cause for each in children if each.cause), "")

    def _children(self, resource: Resource[Any], obj: RayObject) -> Iterator[ObjectStatus]:
        status, uid = status_of(obj), obj.metadata.uid
        named = status.get("rayClusterName") if resource is RAYJOBS else None
        for child_resource in (RAYJOBS, RAYCLUSTERS, WORKSPACES):
            found = self._seen.objects.get(child_resource, [])
            for child in sorted(found, key=lambda each: each.metadata.creation_timestamp or ""):
                meta = child.metadata
                if _owner(child) == uid:
                    yield self.of(child_resource, child, _role(status, meta.name))
                elif (meta.namespace, meta.name) == (obj.metadata.namespace, named):
                    yield self.of(child_resource, child, "chosen by clusterSelector")

    def _workspace(self, workspace: RayObject) -> Iterator[ObjectStatus]:
        """Yield the claims of nodes, and the workload with its pods."""
        for claim, status in claims_of(self._seen, workspace):
            self.uids.add(claim.metadata.uid)
            yield status
        pods = [each for each in self._seen.pods if is_of_workspace(each, workspace)]
        self.uids.update(each.metadata.uid for each in pods)
        for workload, status in workloads_of(self._seen, workspace):
            uid = workload.metadata.uid
            self.uids.add(uid)
            own = [each for each in pods if _owner(each) == uid]
            states = tuple(self._plain_pod(workspace, each) for each in own)
            yield msgspec.structs.replace(status, pods=states)

    def _submitters(self, resource: Resource[Any], obj: RayObject) -> Iterator[PodStatus]:
        wanted = (labels.SUBMITTER, resource.kind, obj.metadata.name)
        for pod in self._seen.pods:
            found = pod.metadata.labels or {}
            given = [found.get(key) for key in _ORIGIN]
            if (*given,) == wanted and pod.metadata.namespace == obj.metadata.namespace:
                self.uids.add(pod.metadata.uid)
                yield self._plain_pod(obj, pod)

    def _groups(
        self, cluster: RayObject, pods: Sequence[Pod]
    ) -> tuple[tuple[GroupStatus, ...], tuple[PodStatus, ...]]:
        """Return the head and the groups, and the pods of none of them."""
        spec = mapping(cluster.spec)
        heads = [pod for pod in pods if is_head(pod)]
        ready = any(map(is_ready, heads))
        states = {
            pod.metadata.uid: self._pod(cluster, pod, head_ready=ready)
            for pod in sorted(pods, key=lambda each: each.metadata.name)
        }
        suspended = spec.get("suspend") is True
        given = [(labels.HEAD_GROUP, mapping(spec.get("headGroupSpec")), 1, heads)]
        for raw in mappings(spec.get("workerGroupSpecs")):
            name = str(raw.get("groupName", ""))
            members = [pod for pod in pods if group_of(pod) == name and not is_head(pod)]
            given.append((name, raw, _desired(raw), members))
        groups: list[GroupStatus] = []
        for name, raw, count, members in given:
            desired = 0 if suspended else count
            own = [states.pop(pod.metadata.uid) for pod in members if pod.metadata.uid in states]
            well = sum(each.state == "ready" for each in own)
            groups.append(GroupStatus(name, desired, well, *_requests(raw, desired), tuple(own)))
        return tuple(groups), tuple(states.values())

    def _plain_pod(self, owner: RayObject, pod: Pod) -> PodStatus:
        """Return the state of a pod that is not part of a cluster."""
        state = self._pod(owner, pod, head_ready=True)
        ended = pod.status.phase == "Succeeded"
        return msgspec.structs.replace(state, state="ended", cause="") if ended else state

    def _pod(self, owner: RayObject, pod: Pod, *, head_ready: bool) -> PodStatus:
        found = diagnose_pod(pod, self._now, head_ready=head_ready)
        if found is not None and not pod.metadata.terminating:
            self._causes.setdefault(owner.metadata.uid, []).append(found)
        state = found.reason.name if found is not None else "ready"
        if pod.metadata.terminating:
            state = "deleting"
        elif found is None and labels.DRAINING_SINCE in (pod.metadata.annotations or {}):
            state = "draining"
        elif found is None and not is_ready(pod):
            state = pod.status.phase or "Pending"
        return PodStatus(
            pod.metadata.name,
            state,
            found.detail if found is not None else "",
            pod.spec.node_name,
            sum(each.restart_count for each in pod.status.container_statuses),
            pod.metadata.creation_timestamp or "",
        )


def _status(resource: Resource[Any], obj: RayObject) -> ObjectStatus:
    """Return what the object itself tells."""
    meta, status, conditions = obj.metadata, status_of(obj), conditions_of(obj)
    copies = [status]
    if resource is not RAYCLUSTERS:
        places = (status, status.get("activeServiceStatus"), status.get("pendingServiceStatus"))
        copies = [mapping(mapping(each).get("rayClusterStatus")) for each in places]
    detail = model_detail(resource, status)
    if resource is RAYJOBS and status.get("jobStatus"):
        detail = f"job {status['jobStatus']}"
        if failed := status.get("failed"):
            detail = f"{detail}, {failed} failed"
    return ObjectStatus(
        resource.kind,
        meta.namespace,
        meta.name,
        _state(resource, obj, status, conditions),
        detail,
        _stored_cause(obj, status, conditions) or model_cause(status, conditions),
        meta.creation_timestamp or "",
        _sum(each.get("desiredCPU") for each in copies),
        _sum(each.get("desiredGPU") for each in copies),
        tuple(
            f"{each['type']}: {each['message']}"
            for each in conditions
            if each["type"] not in _USUAL
            and each.get("message")
            and each.get("reason") not in _OVER
        ),
    )


def _state(  # noqa: PLR0911  one for each kind and state
    resource: Resource[Any],
    obj: RayObject,
    status: Mapping[str, Any],
    conditions: Sequence[Mapping[str, Any]],
) -> str:
    ready = find_condition(conditions, READY)
    if obj.metadata.terminating:
        return "deleting"
    if resource is RAYJOBS:
        return str(status.get("jobDeploymentStatus") or "New")
    if resource is RAYCRONJOBS:
        return "suspended" if mapping(obj.spec).get("suspend") is True else "scheduled"
    if resource in MODEL_KINDS:
        return model_state(status, conditions)
    if ready is None:
        suspended = is_true(conditions, SUSPENDED)
        return "suspended" if suspended else str(status.get("state") or "new")
    if is_true(conditions, "UpgradeInProgress"):
        return "upgrading"
    if ready.get("status") == "True":
        return "ready"
    if ready.get("reason") == SUSPENDED_REASON.name:
        return "suspended"
    return "starting" if ready.get("reason") in _STARTING else "not ready"


def _stored_cause(  # noqa: PLR0911  one for each place of a cause
    obj: RayObject, status: Mapping[str, Any], conditions: Sequence[Mapping[str, Any]]
) -> str:
    """Return the first cause that the operator has stored, KubeRay's if there is no other."""
    ready = find_condition(conditions, READY)
    if status.get("jobDeploymentStatus") == "Complete":
        return ""
    if ready is not None and (ready.get("status") != "True" or not obj.metadata.terminating):
        return "" if ready.get("status") == "True" else str(ready.get("message", ""))
    if obj.metadata.terminating:
        held = ", ".join(obj.metadata.finalizers)
        return f"it is being deleted; its finalizers: {held}" if held else "it is being deleted"
    if status.get("jobDeploymentStatus") in _FAILED:
        return str(status.get("message") or status.get("reason") or "")
    if is_true(conditions, REPLICA_FAILURE):
        return str((find_condition(conditions, REPLICA_FAILURE) or {}).get("message", ""))
    for kind in (HEAD_POD_READY, PROVISIONED):
        found = find_condition(conditions, kind) or {}
        if found.get("status") == "False" and found.get("message"):
            return str(found["message"])
    return ""


def _role(status: Mapping[str, Any], cluster: str) -> str:
    """Return the part that a cluster has in a RayService; empty if it has none."""
    for role in ("active", "pending"):
        found = mapping(status.get(f"{role}ServiceStatus"))
        if found.get("rayClusterName") == cluster:
            percent = found.get("trafficRoutedPercent")
            return role if percent is None else f"{role}, {percent} % of requests"
    return ""


def _is_of_cluster(pod: Pod, cluster: RayObject) -> bool:
    """Return whether the pod has this cluster as its owner, or no owner and its label."""
    owner, meta = pod.metadata.controller, cluster.metadata
    if owner is not None:
        return owner.uid == meta.uid
    name = (pod.metadata.labels or {}).get(labels.CLUSTER)
    return (pod.metadata.namespace, name) == (meta.namespace, meta.name)


def _owner(obj: KubeObject) -> str:
    owner = obj.metadata.controller
    return owner.uid if owner is not None else ""


def _place(resource: Resource[Any], obj: RayObject) -> tuple[str, str, str]:
    return obj.metadata.namespace, resource.kind, obj.metadata.name


def _desired(group: Mapping[str, Any]) -> int:
    try:
        return parse(group, WorkerGroup).desired_pods
    except msgspec.ValidationError:
        return 0


def _requests(group: Mapping[str, Any], times: int) -> tuple[str, str]:
    """Return CPUs and GPUs that so many pods of a group ask for."""
    containers = mappings(dig(group, "template", "spec", "containers"))
    try:
        found = requests_of(containers)
    except InvalidQuantity:
        return "", ""
    gpus = sum((amount for name, amount in found.items() if is_gpu(name)), ZERO)
    return str(found.get("cpu", ZERO) * times), str(gpus * times)


def _sum(amounts: Iterable[Any]) -> str:
    """Return the sum of the quantities that are given; empty if none is."""
    total: Quantity | None = None
    for each in amounts:
        try:
            total = (total or ZERO) + parse_quantity(each) if each is not None else total
        except (InvalidQuantity, TypeError):
            continue
    return "" if total is None else str(total)


def _event(event: SeenEvent) -> EventStatus:
    about = event.regarding
    what = f"{about.kind.lower()}/{about.name}"
    return EventStatus(event.last, event.type, event.reason, what, event.note, event.count)
