"""Container statuses: each function returns the status after one event."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from msgspec.structs import replace

from controller.devcluster.nodes.pods import (
    ContainerState,
    ContainerStatus,
    Running,
    Terminated,
    Waiting,
)

if TYPE_CHECKING:
    from controller.devcluster.nodes.pods import Container

CREATING, INITIALIZING = "ContainerCreating", "PodInitializing"
IMAGE_ERROR, IMAGE_BACK_OFF = "ErrImagePull", "ImagePullBackOff"
CRASH_LOOP = "CrashLoopBackOff"


def waiting(container: Container, reason: str) -> ContainerStatus:
    """Of a container that has never run."""
    return ContainerStatus(
        name=container.name,
        image=container.image,
        state=ContainerState(waiting=Waiting(reason=reason)),
    )


def without_image(status: ContainerStatus, reason: str) -> ContainerStatus:
    """Of a container whose image cannot be pulled; `reason` is one of the two image reasons."""
    message = f'Back-off pulling image "{status.image}"'
    if reason == IMAGE_ERROR:
        message = f'failed to pull and unpack image "{status.image}": not found'
    return replace(status, state=ContainerState(waiting=Waiting(reason=reason, message=message)))


def started(status: ContainerStatus, pod_uid: str, now: str) -> ContainerStatus:
    """Of a container that has just started."""
    return replace(
        status,
        container_id=f"sim://{_digest(pod_uid, status.name, str(status.restart_count))}",
        image_id=f"{status.image}@sha256:{_digest(status.image)}",
        started=True,
        ready=False,
        state=ContainerState(running=Running(started_at=now)),
    )


def restarted(status: ContainerStatus, pod_uid: str, now: str) -> ContainerStatus:
    """Of a container that has just started again."""
    again = replace(status, restart_count=status.restart_count + 1)
    return started(again, pod_uid, now)


def completed(status: ContainerStatus, now: str) -> ContainerStatus:
    """Of an init container that has completed."""
    return replace(terminated(status, 0, now), ready=True)


def terminated(status: ContainerStatus, exit_code: int, now: str) -> ContainerStatus:
    """Of a container that has ended and is not restarted."""
    end = _end(status, exit_code, now)
    return replace(status, ready=False, started=False, state=ContainerState(terminated=end))


def crashed(status: ContainerStatus, exit_code: int, now: str) -> ContainerStatus:
    """Of a container that has ended and waits for its restart."""
    again = Waiting(
        reason=CRASH_LOOP, message=f"back-off restarting failed container={status.name}"
    )
    return replace(
        status,
        ready=False,
        started=False,
        state=ContainerState(waiting=again),
        last_state=ContainerState(terminated=_end(status, exit_code, now)),
    )


def _end(status: ContainerStatus, exit_code: int, now: str) -> Terminated:
    running = status.state.running
    return Terminated(
        exit_code=exit_code,
        reason="Completed" if exit_code == 0 else "Error",
        started_at=running.started_at if running else now,
        finished_at=now,
        container_id=status.container_id,
    )


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
