"""The cause that keeps the pods of a Workspace from becoming ready, with Kaito's reasons.

The texts have no times and no counts, and a crashing container has the same text while it runs
between two crashes, so that the status is not written for each of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.apimachinery.redaction import last_error
from controller.kaito.api.message import cut
from controller.kaito.workspace.config import Blocked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from controller.kube.objects import Condition, ContainerStateTerminated, ContainerStatus, Pod

# Source of the names: kaito-project/kaito at 056b8280,
# pkg/workspace/controllers/workspace_controller.go.
_CANNOT_PULL: Final = frozenset(
    {
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImageInspectError",
        "ImagePullBackOff",
        "InvalidImageName",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)
_CANNOT_START: Final = frozenset(
    {
        "CreateContainerConfigError",
        "CreateContainerError",
        "PostStartHookError",
        "PreCreateHookError",
        "PreStartHookError",
        "RunContainerError",
    }
)
_EVICTIONS: Final = (
    ("ephemeral-storage", "NodeDiskPressure"),
    ("disk", "NodeDiskPressure"),
    ("memory", "NodeMemoryPressure"),
    ("", "PodEvicted"),
)
"""Reasons by the words with which the kubelet says what a node lacks."""

_GATED: Final = "SchedulingGated"


def server_cause(pods: Iterable[Pod]) -> Blocked | None:
    """Return the first cause among the pods of a model server, None if there is none.

    Causes are ordered as in Kaito, pods by their numbers. Pods that are ready or terminating have
    no cause.
    """
    failing = sorted(
        (pod for pod in pods if not pod.metadata.terminating and not is_ready(pod)),
        key=lambda pod: (len(pod.metadata.name), pod.metadata.name),
    )
    return next((cause for check in _CHECKS for pod in failing if (cause := check(pod))), None)


def job_cause(pods: Iterable[Pod]) -> Blocked | None:
    """Return the cause in the newest pod of a job; each earlier one was an attempt that is over."""
    newest = max(
        pods,
        key=lambda pod: (pod.metadata.creation_timestamp or "", pod.metadata.name),
        default=None,
    )
    return server_cause((newest,)) if newest is not None else None


def _out_of_memory(pod: Pod) -> Blocked | None:
    for title, container in _containers(pod):
        end = _last_end(container)
        if end is not None and end.reason == "OOMKilled":
            said = f"{title} ran out of memory; let it use less, or take a larger instance type"
            return _cause("ContainerOOMKilled", pod, said)
    return None


def _not_pulled(pod: Pod) -> Blocked | None:
    return _waiting(pod, _CANNOT_PULL, "ImagePullError", "the image of {} cannot be pulled")


def _not_started(pod: Pod) -> Blocked | None:
    return _waiting(pod, _CANNOT_START, "ContainerStartError", "{} cannot be started")


def _waiting(pod: Pod, reasons: frozenset[str], reason: str, what: str) -> Blocked | None:
    for title, container in _containers(pod):
        waiting = container.state.waiting
        if waiting is not None and waiting.reason in reasons:
            said = waiting.message or waiting.reason
            return _cause(reason, pod, f"{what.format(title)}: {said}")
    return None


def _ended(pod: Pod) -> Blocked | None:
    status = pod.status
    if status.phase != "Failed" or not status.reason:
        return None
    said = f"{status.reason}: {status.message}" if status.message else status.reason
    reason = "PodFailed"
    if status.reason == "Evicted":
        lacking = status.message.lower()
        reason = next(reason for word, reason in _EVICTIONS if word in lacking)
    return _cause(reason, pod, f"it has failed ({said})")


def _crashing(pod: Pod) -> Blocked | None:
    for title, container in _containers(pod):
        end = _last_end(container)
        if end is not None and (end.exit_code or container.restart_count):
            said = f"{title} ended with exit code {end.exit_code}{_words(end)}"
            return _cause("ContainerCrashLoopBackOff", pod, said)
    return None


def _unscheduled(pod: Pod) -> Blocked | None:
    scheduled = _condition(pod, "PodScheduled")
    if scheduled is None or scheduled.status != "False":
        return None
    gated = scheduled.reason == _GATED
    reason = _GATED if gated else "Unschedulable"
    return _cause(reason, pod, f"it cannot be scheduled: {scheduled.message or scheduled.reason}")


_CHECKS: Final[tuple[Callable[[Pod], Blocked | None], ...]] = (
    _out_of_memory,
    _not_pulled,
    _not_started,
    _ended,
    _crashing,
    _unscheduled,
)


def _cause(reason: str, pod: Pod, message: str) -> Blocked:
    return Blocked(reason, cut(f"pod {pod.metadata.name}: {message}"))


def _containers(pod: Pod) -> Iterable[tuple[str, ContainerStatus]]:
    """Return the containers that are not ready, in the order in which they start."""
    status = pod.status
    for container in status.init_container_statuses:
        if not container.ready:
            yield f"init container {container.name}", container
    for container in status.container_statuses:
        if not container.ready:
            yield f"container {container.name}", container


def _last_end(container: ContainerStatus) -> ContainerStateTerminated | None:
    """Return its last end, even while it runs again."""
    return container.state.terminated or container.last_state.terminated


def _words(end: ContainerStateTerminated) -> str:
    said = ": ".join(filter(None, (end.reason, last_error(end.message))))
    return f" ({said})" if said else ""


def is_ready(pod: Pod) -> bool:
    """Return whether a pod runs and its condition `Ready` is True."""
    ready = _condition(pod, "Ready")
    return pod.status.phase == "Running" and ready is not None and ready.status == "True"


def _condition(pod: Pod, type_: str) -> Condition | None:
    return next((each for each in pod.status.conditions if each.type == type_), None)
