"""Diagnoses a pod that is not ready, from the status that kubelet and scheduler wrote.

Each check recognises one cause; the first that applies is the diagnosis.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from controller.apimachinery.conditions import rfc3339, time_of
from controller.apimachinery.redaction import last_error
from controller.kube.objects import ContainerStateTerminated, ContainerStatus, Pod
from controller.ray.api import labels
from controller.ray.api.pod_state import (
    condition,
    group_of,
    is_head,
    is_on_lost_node,
    is_ready,
    ray_status,
)
from controller.ray.diagnosis import reasons
from controller.ray.diagnosis.reasons import Cause, Reason
from controller.ray.pods.features import WAIT_CONTAINER

# Input and result of the checks of `diagnose_pod`.

SLOW_AFTER: Final = timedelta(minutes=5)
"""The time that a step of starting may take before it is reported as a cause of its own."""


class Finding(Struct, frozen=True):
    """The result of a check.

    Attributes:
        reason: kind of the cause.
        message: a predicate of the pod, with the remedy.
        since: time when it began, None if unknown.
        component: the component that it concerns, empty if it is the pod's own.
    """

    reason: Reason
    message: str
    since: datetime | None = None
    component: str = ""


def with_quote(sentence: str, quoted: str) -> str:
    """Return the sentence, and after a colon another component's message, to be continued."""
    quoted = quoted.strip()
    if not quoted.endswith(".."):
        quoted = quoted.removesuffix(".")
    return f"{sentence}: {quoted}" if quoted else sentence


class PodDiagnosis(Struct, frozen=True):
    """A pod that is not ready, and the context of its diagnosis."""

    pod: Pod
    now: datetime
    head_ready: bool

    @property
    def is_submitter(self) -> bool:
        """Whether it is the pod of a job's submitter."""
        return (self.pod.metadata.labels or {}).get(labels.NODE_TYPE) == labels.SUBMITTER

    @property
    def template(self) -> str:
        """The field in which the user changes the pod."""
        if is_head(self.pod):
            return "spec.headGroupSpec.template"
        if self.is_submitter:
            return "spec.submitterPodTemplate"
        return f"the template of group {group_of(self.pod)}"

    @property
    def containers(self) -> list[tuple[str, ContainerStatus]]:
        """All containers with a status, in the order in which they start."""
        status = self.pod.status
        return [
            *((f"init container {each.name}", each) for each in status.init_container_statuses),
            *((f"container {each.name}", each) for each in status.container_statuses),
        ]

    def since(self, kind: str) -> datetime | None:
        """Return the time when that condition of the pod last changed; None if unknown."""
        found = condition(self.pod, kind)
        return time_of(found.last_transition_time if found else None)

    def is_late(self, since: datetime | None) -> bool:
        """Return whether `SLOW_AFTER` has passed since then."""
        return since is not None and self.now - since >= SLOW_AFTER


# Diagnoses containers that do not run, from the kubelet's status.

_CANNOT_START: Final = {
    "ImagePullBackOff": reasons.IMAGE_PULL,
    "ErrImagePull": reasons.IMAGE_PULL,
    "RegistryUnavailable": reasons.IMAGE_PULL,
    "ImageInspectError": reasons.IMAGE_PULL,
    "SignatureValidationFailed": reasons.IMAGE_PULL,
    "InvalidImageName": reasons.INVALID_IMAGE_NAME,
    "ErrImageNeverPull": reasons.IMAGE_NEVER_PULLED,
    "CreateContainerConfigError": reasons.CONTAINER_CONFIG,
    "CreateContainerError": reasons.CONTAINER_CREATION,
    "RunContainerError": reasons.CONTAINER_START,
}

_OBJECT_MISSING: Final = re.compile(r'\b(secret|configmap) "([^"]+)" not found', re.IGNORECASE)


def not_started(diagnosis: PodDiagnosis) -> Finding | None:
    """Find the first container that cannot be started."""
    for title, container in diagnosis.containers:
        waiting = container.state.waiting
        reason = _CANNOT_START.get(waiting.reason) if waiting is not None else None
        if waiting is None or reason is None:
            continue
        quoted = waiting.message or waiting.reason
        verb = "cannot pull the image of" if reason is reasons.IMAGE_PULL else "cannot start"
        message = f"{verb} {title}: {quoted}{_remedy(diagnosis, container.name, quoted, reason)}"
        return Finding(reason, message, diagnosis.since("ContainersReady"))
    return None


def _remedy(diagnosis: PodDiagnosis, container: str, quoted: str, reason: Reason) -> str:
    missing = _OBJECT_MISSING.search(quoted)
    if missing:
        kind = {"secret": "Secret", "configmap": "ConfigMap"}[missing[1].lower()]
        return f"; create the {kind} {missing[2]} in namespace {diagnosis.pod.metadata.namespace}"
    if reason in {reasons.IMAGE_PULL, reasons.INVALID_IMAGE_NAME}:
        whose = "the Ray container" if container == WAIT_CONTAINER else container
        heads = ", which takes it from the head by default" if diagnosis.is_submitter else ""
        where = f"{diagnosis.template}{heads}"
        return f"; correct the image of {whose} in {where}, or set imagePullSecrets"
    if reason is reasons.CONTAINER_START:
        return f"; correct command and args of {container} in {diagnosis.template}"
    return ""


def crashing(diagnosis: PodDiagnosis) -> Finding | None:
    """Find a container that crashes repeatedly, even while it runs between two crashes."""
    for title, container in diagnosis.containers:
        end = container.last_state.terminated or container.state.terminated
        if end is None or container.ready or (not end.exit_code and not container.restart_count):
            continue
        if end.reason == "OOMKilled":
            return out_of_memory(diagnosis, title, container.name, end)
        which = " --previous" if container.last_state.terminated is not None else ""
        message = (
            f"crashes: {title} last {ending(end)}; see "
            f"`kubectl logs {diagnosis.pod.metadata.name} -c {container.name}{which}`"
        )
        return Finding(reasons.CRASH_LOOP, message)
    return None


def out_of_memory(
    diagnosis: PodDiagnosis, title: str, name: str, end: ContainerStateTerminated
) -> Finding:
    """Return the finding for a container that ran out of memory."""
    spec = diagnosis.pod.spec
    limits = next((c.resources.limits for c in spec.all_containers if c.name == name), None)
    limit = (limits or {}).get("memory")
    limited = f"its memory limit is {limit}" if limit else "it has no memory limit of its own"
    message = (
        f"ran out of memory: {title} {ending(end)}; {limited}; raise "
        f"resources.limits.memory of {name} in {diagnosis.template}"
    )
    return Finding(reasons.OUT_OF_MEMORY, message)


def ending(end: ContainerStateTerminated | None) -> str:
    """Return the predicate of a container's end, with the error that it left behind."""
    if end is None:
        return "ended"
    at = f" at {end.finished_at}" if end.finished_at else ""
    return f"ended with {exit_code(end)}{at}{final_error(end)}"


def exit_code(end: ContainerStateTerminated) -> str:
    """Return the exit code and the kubelet's reason: `exit code 1 (Error)`."""
    return f"exit code {end.exit_code} ({end.reason or 'Error'})"


def final_error(end: ContainerStateTerminated) -> str:
    """Return the line of its termination message that states the error, to end a sentence."""
    quoted = last_error(end.message)
    return f", saying: {quoted}" if quoted else ""


TERMINATION_MARGIN: Final = timedelta(seconds=30)
"""Time after its grace period in which a pod should disappear."""

HEAD: Final = "head"
"""The name of the head as a component of its cluster."""

ITS_REPLACEMENT: Final = "; it is replaced"
"""The end of the message about a pod that has ended."""

_CLAIM_MISSING: Final = re.compile(r'persistentvolumeclaim "([^"]+)" not found')


def diagnose_pod(pod: Pod, now: datetime, *, head_ready: bool) -> Cause | None:
    """Return the cause of a pod that is not ready; None if ready, or terminating in time."""
    if pod.metadata.terminating:
        finding = _stuck(pod, now)
    elif is_ready(pod):
        return None
    else:
        finding = _first_finding(PodDiagnosis(pod, now, head_ready))
    return None if finding is None else _as_cause(pod, finding)


def _first_finding(diagnosis: PodDiagnosis) -> Finding:
    for check in _CHECKS:
        finding = check(diagnosis)
        if finding is not None:
            return finding
    return _pending(diagnosis)


def _as_cause(pod: Pod, finding: Finding) -> Cause:
    component = component_of_pod(pod)
    since = f", since {rfc3339(finding.since)}" if finding.since else ""
    return Cause(
        finding.reason,
        finding.component or component,
        f"pod {pod.metadata.name} {finding.message}{since}",
        blocks_head=component == HEAD,
        since=finding.since,
        age=f"{pod.metadata.creation_timestamp} {pod.metadata.name}",
    )


def component_of_pod(pod: Pod) -> str:
    """Return the component of the cluster to which the pod belongs: `head`, `group small`."""
    return HEAD if is_head(pod) else f"group {group_of(pod)}"


def termination_deadline(pod: Pod) -> datetime | None:
    """Return the time at which a terminating pod should be gone; None for any other.

    The margin also counts from the end of its containers, which a kubelet may report late.
    """
    deadline = time_of(pod.metadata.deletion_timestamp)
    if deadline is None:
        return None
    ends = (container.state.terminated for container in pod.status.container_statuses)
    heard = (time_of(end.finished_at) for end in ends if end is not None)
    return max((deadline, *filter(None, heard))) + TERMINATION_MARGIN


def _stuck(pod: Pod, now: datetime) -> Finding | None:
    if is_on_lost_node(pod):
        return _lost(pod, "was deleted and cannot terminate: it is")
    deadline, overdue = time_of(pod.metadata.deletion_timestamp), termination_deadline(pod)
    if overdue is None or now < overdue:
        return None
    if pod.metadata.finalizers:
        held = f"is held by finalizer {pod.metadata.finalizers[0]}"
        remedy = "the controller that added it must remove it"
    else:
        held = f"does not disappear from node {pod.spec.node_name}"
        remedy = (
            "if the node is dead, delete its Node object; if the pod certainly no longer runs, "
            f"`kubectl delete pod {pod.metadata.name} --grace-period=0 --force`"
        )
    return Finding(reasons.STUCK_TERMINATING, f"was deleted and {held}; {remedy}", deadline)


def _ended(diagnosis: PodDiagnosis) -> Finding | None:
    status = diagnosis.pod.status
    if status.phase not in {"Failed", "Succeeded"}:
        return None
    for title, container in diagnosis.containers:
        end = container.state.terminated
        if end is not None and end.reason == "OOMKilled":
            return out_of_memory(diagnosis, title, container.name, end)
    why = f" ({status.reason})" if status.reason else ""
    ended = f"has ended{why}{'' if status.message else _exits(diagnosis)}"
    message = f"{with_quote(ended, status.message)}{ITS_REPLACEMENT}"
    if status.reason == "Evicted":
        return Finding(reasons.EVICTED, message)
    failed = status.phase == "Failed"
    return Finding(reasons.POD_FAILED if failed else reasons.POD_SUCCEEDED, message)


def _exits(diagnosis: PodDiagnosis) -> str:
    ends = [
        f"{title} {ending(container.state.terminated)}"
        for title, container in diagnosis.containers
        if container.state.terminated is not None and container.state.terminated.exit_code
    ]
    return f": {', '.join(ends)}" if ends else ""


def _on_lost_node(diagnosis: PodDiagnosis) -> Finding | None:
    return _lost(diagnosis.pod, "is") if is_on_lost_node(diagnosis.pod) else None


def _lost(pod: Pod, how: str) -> Finding:
    """Diagnose a lost node: one cause for all of its pods, so the component is the node."""
    ready, node = condition(pod, "Ready"), pod.spec.node_name
    message = (
        f"{how} on node {node}, which no longer reports (NodeLost); "
        "repair the node, or delete its Node object so that the pod is replaced"
    )
    since = time_of(ready.last_transition_time if ready else None)
    return Finding(reasons.NODE_LOST, message, since, component=f"node {node}")


def _unscheduled(diagnosis: PodDiagnosis) -> Finding | None:
    scheduled = condition(diagnosis.pod, "PodScheduled")
    if scheduled is None or scheduled.status != "False":
        return None
    since = time_of(scheduled.last_transition_time)
    quoted = _without_preemption(scheduled.message)
    if scheduled.reason == "SchedulingGated":
        message = with_quote("waits until its scheduling gates are removed", quoted)
        return Finding(reasons.SCHEDULING_GATED, message, since)
    missing = _CLAIM_MISSING.search(quoted)
    if missing:
        message = f"needs PersistentVolumeClaim {missing[1]}, which does not exist; create it"
        return Finding(reasons.VOLUME_CLAIM_MISSING, message, since)
    if "unbound immediate PersistentVolumeClaims" in quoted:
        message = f"{with_quote('waits for a volume', quoted)}; see `kubectl describe pvc`"
        return Finding(reasons.VOLUME_CLAIM_UNBOUND, message, since)
    return Finding(reasons.UNSCHEDULABLE, with_quote("cannot be scheduled", quoted), since)


def _without_preemption(message: str) -> str:
    """Drop the sentence about preemption, which would not help either.

    It begins with what other plugins found, as in "no new claims to deallocate, preemption: 0/3
    nodes are available: ..." of Kubernetes 1.36.
    """
    why, found, _ = message.partition("preemption: ")
    return why.rpartition(". ")[0] or why if found else message


def _waiting_for_head(diagnosis: PodDiagnosis) -> Finding | None:
    for container in diagnosis.pod.status.init_container_statuses:
        if container.name != WAIT_CONTAINER or container.state.running is None:
            continue
        since = time_of(container.state.running.started_at)
        if diagnosis.head_ready and diagnosis.is_late(since):
            message = (
                f"does not reach the head, which is ready: {container.name} still waits; look at "
                "network policies and DNS between them"
            )
            return Finding(reasons.HEAD_UNREACHABLE, message, since)
        return Finding(reasons.WAITING_FOR_HEAD, "waits for the head", since)
    return None


def _unready(diagnosis: PodDiagnosis) -> Finding | None:
    ready = condition(diagnosis.pod, "Ready")
    if diagnosis.pod.status.phase != "Running" or ready is None:
        return None
    since = time_of(ready.last_transition_time)
    ray = ray_status(diagnosis.pod)
    running = [
        container
        for container in diagnosis.pod.status.container_statuses
        if container.state.running is not None and not container.ready
    ]
    if running and diagnosis.is_late(since):
        failing = ray if ray in running else running[0]
        is_rays = failing is ray and is_head(diagnosis.pod)
        purpose = ", which checks dashboard and GCS," if is_rays else ""
        message = (
            f"is running, but the readiness probe of container {failing.name}{purpose} fails; see "
            f"`kubectl describe pod {diagnosis.pod.metadata.name}` and its log"
        )
        return Finding(reasons.PROBE_FAILING, message, since)
    message = f"is not ready: {ready.message or ready.reason or 'it has just started'}"
    return Finding(reasons.CONTAINERS_NOT_READY, message, since)


def _pending(diagnosis: PodDiagnosis) -> Finding:
    since = diagnosis.since("PodScheduled")
    waiting = [c.state.waiting for _, c in diagnosis.containers if c.state.waiting is not None]
    reason = waiting[0].reason if waiting else ""
    if reason in {"ContainerCreating", "PodInitializing"} and diagnosis.is_late(since):
        message = (
            f"is still {reason} on node {diagnosis.pod.spec.node_name}: a large image, or a volume "
            "whose Secret, ConfigMap or claim is missing; see "
            f"`kubectl describe pod {diagnosis.pod.metadata.name}`"
        )
        return Finding(reasons.SLOW_START, message, since)
    state = f" ({reason})" if reason else ""
    return Finding(
        reasons.POD_PENDING,
        f"is {diagnosis.pod.status.phase or 'Pending'}{state}, not ready yet",
        since,
    )


_CHECKS: Final[tuple[Callable[[PodDiagnosis], Finding | None], ...]] = (
    _ended,
    _on_lost_node,
    _unscheduled,
    not_started,
    crashing,
    _waiting_for_head,
    _unready,
)
