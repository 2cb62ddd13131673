"""Why a pod is not ready, read from what kubelet, scheduler and node lifecycle wrote about it.

Each check knows one way of not being ready; the first that applies is the pod's trouble.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from controller.ray.cluster import causes
from controller.ray.cluster.causes import Cause
from controller.ray.cluster.pod_state import condition, group_of, is_head, is_ready
from controller.runtime.timestamps import parse_rfc3339, rfc3339

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from controller.kube.objects import ContainerStateTerminated, ContainerStatus, Pod
    from controller.ray.cluster.causes import Reason

PATIENCE: Final = timedelta(minutes=5)
"""How long what takes time may take before it is told as a cause of its own."""

OVERDUE: Final = timedelta(seconds=30)
"""How long after the end of its grace period a pod may need to go."""

HEAD: Final = "head"
"""Part of the cluster: the head."""

_WAIT_CONTAINER: Final = "wait-gcs-ready"

_CANNOT_START: Final = {
    "ImagePullBackOff": causes.IMAGE_PULL,
    "ErrImagePull": causes.IMAGE_PULL,
    "RegistryUnavailable": causes.IMAGE_PULL,
    "ImageInspectError": causes.IMAGE_PULL,
    "SignatureValidationFailed": causes.IMAGE_PULL,
    "InvalidImageName": causes.INVALID_IMAGE_NAME,
    "ErrImageNeverPull": causes.IMAGE_NEVER_PULLED,
    "CreateContainerConfigError": causes.CONTAINER_CONFIG,
    "CreateContainerError": causes.CONTAINER_CREATION,
    "RunContainerError": causes.CONTAINER_START,
}

_CLAIM_MISSING: Final = re.compile(r'persistentvolumeclaim "([^"]+)" not found')
_OBJECT_MISSING: Final = re.compile(r'\b(secret|configmap) "([^"]+)" not found', re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Finding:
    reason: Reason
    words: str
    since: datetime | None = None
    part: str = ""


@dataclass(frozen=True, slots=True)
class _Case:
    """A pod that is not ready, and what else its trouble depends on."""

    pod: Pod
    now: datetime
    head_ready: bool

    @property
    def template(self) -> str:
        """Where the user changes it."""
        if is_head(self.pod):
            return "spec.headGroupSpec.template"
        return f"the template of group {group_of(self.pod)}"

    @property
    def containers(self) -> Iterator[tuple[str, ContainerStatus]]:
        """All containers with a status, in the order in which they start."""
        for container in self.pod.status.init_container_statuses:
            yield f"init container {container.name}", container
        for container in self.pod.status.container_statuses:
            yield f"container {container.name}", container

    def since(self, kind: str) -> datetime | None:
        """When that condition of the pod last changed."""
        found = condition(self.pod, kind)
        return _moment(found.last_transition_time if found else None)

    def is_late(self, since: datetime | None) -> bool:
        """Whether that is longer ago than starting takes."""
        return since is not None and self.now - since >= PATIENCE


def trouble(pod: Pod, now: datetime, *, head_ready: bool) -> Cause | None:
    """Why the pod is not ready; None if it is, or goes as it should."""
    if pod.metadata.terminating:
        finding = _stuck(pod, now)
    elif is_ready(pod):
        return None
    else:
        finding = _first_finding(_Case(pod, now, head_ready))
    return None if finding is None else _as_cause(pod, finding)


def _first_finding(case: _Case) -> _Finding:
    for check in _CHECKS:
        finding = check(case)
        if finding is not None:
            return finding
    return _pending(case)


def _as_cause(pod: Pod, finding: _Finding) -> Cause:
    part = part_of_pod(pod)
    since = f", since {rfc3339(finding.since)}" if finding.since else ""
    return Cause(
        finding.reason,
        finding.part or part,
        f"pod {pod.metadata.name} {finding.words}{since}",
        blocks_head=part == HEAD,
        since=finding.since,
        age=f"{pod.metadata.creation_timestamp} {pod.metadata.name}",
    )


def part_of_pod(pod: Pod) -> str:
    """The part of the cluster that the pod belongs to."""
    return HEAD if is_head(pod) else f"group {group_of(pod)}"


def overdue_from(pod: Pod) -> datetime | None:
    """When a pod that was deleted should be gone, None if it was not deleted.

    After the end of its containers, which a kubelet that was out of reach reports late, it has as
    long again.
    """
    deadline = _moment(pod.metadata.deletion_timestamp)
    if deadline is None:
        return None
    ends = (container.state.terminated for container in pod.status.container_statuses)
    heard = (_moment(end.finished_at) for end in ends if end is not None)
    return max((deadline, *filter(None, heard))) + OVERDUE


def _stuck(pod: Pod, now: datetime) -> _Finding | None:
    if _is_on_lost_node(pod):
        return _lost(pod, "was deleted and cannot go: it is")
    deadline, overdue = _moment(pod.metadata.deletion_timestamp), overdue_from(pod)
    if overdue is None or now < overdue:
        return None
    if pod.metadata.finalizers:
        held = f"is held by finalizer {pod.metadata.finalizers[0]}"
        remedy = "whoever put it there must remove it"
    else:
        held = f"does not go from node {pod.spec.node_name}"
        remedy = (
            "if the node is dead, delete its Node object; if the pod certainly no longer runs, "
            f"`kubectl delete pod {pod.metadata.name} --grace-period=0 --force`"
        )
    return _Finding(causes.STUCK_TERMINATING, f"was deleted and {held}; {remedy}", deadline)


def _ended(case: _Case) -> _Finding | None:
    status = case.pod.status
    if status.phase not in {"Failed", "Succeeded"}:
        return None
    for title, container in case.containers:
        end = container.state.terminated
        if end is not None and end.reason == "OOMKilled":
            return _out_of_memory(case, title, container.name, end)
    why = f" ({status.reason})" if status.reason else ""
    detail = f": {status.message}" if status.message else _exits(case)
    words = f"has ended{why}{detail}; it is replaced"
    if status.reason == "Evicted":
        return _Finding(causes.EVICTED, words)
    failed = status.phase == "Failed"
    return _Finding(causes.POD_FAILED if failed else causes.POD_SUCCEEDED, words)


def _exits(case: _Case) -> str:
    ends = [
        f"{title} {_ending(container.state.terminated)}"
        for title, container in case.containers
        if container.state.terminated is not None and container.state.terminated.exit_code
    ]
    return f": {', '.join(ends)}" if ends else ""


def _on_lost_node(case: _Case) -> _Finding | None:
    return _lost(case.pod, "is") if _is_on_lost_node(case.pod) else None


def _is_on_lost_node(pod: Pod) -> bool:
    """The node lifecycle turns Ready over and leaves the kubelet's last words as they are."""
    status, ready = pod.status, condition(pod, "Ready")
    if status.reason == "NodeLost" or status.phase == "Unknown":
        return True
    if ready is None or ready.status == "True":
        return False
    containers = status.container_statuses
    all_well = bool(containers) and all(container.ready for container in containers)
    return ready.status == "Unknown" or (all_well and not ready.reason)


def _lost(pod: Pod, how: str) -> _Finding:
    """One node's loss is one cause, whatever was on it."""
    ready, node = condition(pod, "Ready"), pod.spec.node_name
    words = (
        f"{how} on node {node}, which no longer reports (NodeLost); "
        "repair the node, or delete its Node object so that the pod is replaced"
    )
    since = _moment(ready.last_transition_time if ready else None)
    return _Finding(causes.NODE_LOST, words, since, part=f"node {node}")


def _unscheduled(case: _Case) -> _Finding | None:
    scheduled = condition(case.pod, "PodScheduled")
    if scheduled is None or scheduled.status != "False":
        return None
    since, said = _moment(scheduled.last_transition_time), scheduled.message
    if scheduled.reason == "SchedulingGated":
        words = f"waits for its scheduling gates to be taken away: {said}"
        return _Finding(causes.SCHEDULING_GATED, words, since)
    missing = _CLAIM_MISSING.search(said)
    if missing:
        words = f"needs PersistentVolumeClaim {missing[1]}, which does not exist; create it"
        return _Finding(causes.VOLUME_CLAIM_MISSING, words, since)
    if "unbound immediate PersistentVolumeClaims" in said:
        words = f"waits for a volume: {said}; see `kubectl describe pvc`"
        return _Finding(causes.VOLUME_CLAIM_UNBOUND, words, since)
    return _Finding(causes.UNSCHEDULABLE, f"cannot be scheduled: {said}", since)


def _not_started(case: _Case) -> _Finding | None:
    for title, container in case.containers:
        waiting = container.state.waiting
        reason = _CANNOT_START.get(waiting.reason) if waiting is not None else None
        if waiting is None or reason is None:
            continue
        said = waiting.message or waiting.reason
        verb = "cannot pull the image of" if reason is causes.IMAGE_PULL else "cannot start"
        words = f"{verb} {title}: {said}{_remedy(case, container.name, said, reason)}"
        return _Finding(reason, words, case.since("ContainersReady"))
    return None


def _remedy(case: _Case, container: str, said: str, reason: Reason) -> str:
    missing = _OBJECT_MISSING.search(said)
    if missing:
        kind = {"secret": "Secret", "configmap": "ConfigMap"}[missing[1].lower()]
        return f"; create the {kind} {missing[2]} in namespace {case.pod.metadata.namespace}"
    if reason in {causes.IMAGE_PULL, causes.INVALID_IMAGE_NAME}:
        whose = "the Ray container" if container == _WAIT_CONTAINER else container
        return f"; correct the image of {whose} in {case.template}, or set imagePullSecrets"
    if reason is causes.CONTAINER_START:
        return f"; correct command and args of {container} in {case.template}"
    return ""


def _crashing(case: _Case) -> _Finding | None:
    """Also between two crashes, while the container runs and is not ready."""
    for title, container in case.containers:
        end = container.last_state.terminated or container.state.terminated
        if end is None or container.ready or (not end.exit_code and not container.restart_count):
            continue
        if end.reason == "OOMKilled":
            return _out_of_memory(case, title, container.name, end)
        said = f", saying: {end.message.strip()}" if end.message.strip() else ""
        words = (
            f"crashes: {title} last {_ending(end)}{said}; see "
            f"`kubectl logs {case.pod.metadata.name} -c {container.name} --previous`"
        )
        return _Finding(causes.CRASH_LOOP, words)
    return None


def _out_of_memory(case: _Case, title: str, name: str, end: ContainerStateTerminated) -> _Finding:
    spec = case.pod.spec
    limits = next((c.resources.limits for c in spec.all_containers if c.name == name), None)
    limit = (limits or {}).get("memory")
    limited = f"its memory limit is {limit}" if limit else "it has no memory limit: the node's"
    words = (
        f"ran out of memory: {title} {_ending(end)}; {limited}; raise "
        f"resources.limits.memory of {name} in {case.template}"
    )
    return _Finding(causes.OUT_OF_MEMORY, words)


def _ending(end: ContainerStateTerminated | None) -> str:
    if end is None:
        return "ended"
    at = f" at {end.finished_at}" if end.finished_at else ""
    return f"ended with exit code {end.exit_code} ({end.reason or 'Error'}){at}"


def _waiting_for_head(case: _Case) -> _Finding | None:
    for container in case.pod.status.init_container_statuses:
        if container.name != _WAIT_CONTAINER or container.state.running is None:
            continue
        since = _moment(container.state.running.started_at)
        if case.head_ready and case.is_late(since):
            words = (
                f"does not reach the head, which is ready: {container.name} still waits; look at "
                "network policies and DNS between them"
            )
            return _Finding(causes.HEAD_UNREACHABLE, words, since)
        return _Finding(causes.WAITING_FOR_HEAD, "waits for the head", since)
    return None


def _unready(case: _Case) -> _Finding | None:
    ready = condition(case.pod, "Ready")
    if case.pod.status.phase != "Running" or ready is None:
        return None
    since = _moment(ready.last_transition_time)
    running = [
        container.name
        for container in case.pod.status.container_statuses
        if container.state.running is not None and not container.ready
    ]
    if running and case.is_late(since):
        asked = ", which asks dashboard and GCS," if is_head(case.pod) else ""
        words = (
            f"runs, but the readiness probe of container {running[0]}{asked} fails; see "
            f"`kubectl describe pod {case.pod.metadata.name}` and its log"
        )
        return _Finding(causes.PROBE_FAILING, words, since)
    words = f"is not ready: {ready.message or ready.reason or 'it has just started'}"
    return _Finding(causes.CONTAINERS_NOT_READY, words, since)


def _pending(case: _Case) -> _Finding:
    since = case.since("PodScheduled")
    waiting = [c.state.waiting for _, c in case.containers if c.state.waiting is not None]
    reason = waiting[0].reason if waiting else ""
    if reason in {"ContainerCreating", "PodInitializing"} and case.is_late(since):
        words = (
            f"is still {reason} on node {case.pod.spec.node_name}: a large image, or a volume "
            "whose Secret, ConfigMap or claim is missing; see "
            f"`kubectl describe pod {case.pod.metadata.name}`"
        )
        return _Finding(causes.SLOW_START, words, since)
    state = f" ({reason})" if reason else ""
    return _Finding(
        causes.POD_PENDING, f"is {case.pod.status.phase or 'Pending'}{state}, not ready yet", since
    )


_CHECKS: Final[tuple[Callable[[_Case], _Finding | None], ...]] = (
    _ended,
    _on_lost_node,
    _unscheduled,
    _not_started,
    _crashing,
    _waiting_for_head,
    _unready,
)


def _moment(text: str | None) -> datetime | None:
    """A timestamp of the API, None if there is none or it makes no sense."""
    try:
        return parse_rfc3339(text).astimezone(UTC) if text else None
    except ValueError:
        return None
