"""Statuses of process containers: each function returns the status after one event."""

from __future__ import annotations

from msgspec.structs import replace

from controller.devcluster.nodes.objects import containers
from controller.devcluster.nodes.objects.pods import (
    ReportedContainerState,
    ReportedContainerStatus,
    Running,
    Waiting,
)

PULL_ERROR, PULL_BACK_OFF, NEVER_PULLED = "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull"
CONFIG_ERROR, CREATE_ERROR = "CreateContainerConfigError", "CreateContainerError"
LOST = "ContainerStatusUnknown"

KILLED_CODE = 137


def waiting(status: ReportedContainerStatus, reason: str, message: str) -> ReportedContainerStatus:
    """Return the status of a container that cannot start; an exit moves to `lastState`."""
    last = ReportedContainerState(terminated=status.state.terminated)
    return replace(
        status,
        ready=False,
        started=False,
        state=ReportedContainerState(waiting=Waiting(reason=reason, message=message)),
        last_state=last if status.state.terminated else status.last_state,
    )


def running(
    status: ReportedContainerStatus, pod_uid: str, image_id: str, restarts: int, now: str
) -> ReportedContainerStatus:
    """Return the status of a container that has just been started, after `restarts` restarts."""
    last = ReportedContainerState(terminated=status.state.terminated)
    return replace(
        status,
        container_id=f"process://{containers.digest(pod_uid, status.name, str(restarts))}",
        image_id=image_id,
        restart_count=restarts,
        ready=False,
        started=False,
        state=ReportedContainerState(running=Running(started_at=now)),
        last_state=last if status.state.terminated else status.last_state,
    )


def probed(
    status: ReportedContainerStatus, *, started: bool, ready: bool
) -> ReportedContainerStatus:
    """Return the status of a running container after a probe result."""
    return replace(status, started=started, ready=ready)


def initialized(status: ReportedContainerStatus) -> ReportedContainerStatus:
    """Return the status of an init container that has completed."""
    return replace(status, ready=True)


def lost(status: ReportedContainerStatus, now: str) -> ReportedContainerStatus:
    """Return the status of a container that ran under an earlier kubelet."""
    message = "The container could not be located when the pod was deleted or the kubelet started."
    return containers.terminated(status, KILLED_CODE, now, reason=LOST, message=message)


def exit_code(status: ReportedContainerStatus) -> int | None:
    """Return the exit code of the container, None if it has not ended."""
    return status.state.terminated.exit_code if status.state.terminated else None
