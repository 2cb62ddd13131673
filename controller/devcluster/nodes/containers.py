"""Container statuses: each function returns the status after one event."""

from __future__ import annotations

import hashlib

import msgspec
from msgspec.structs import replace

from controller.devcluster.nodes.pods import (
    KubeletContainer,
    ReportedContainerState,
    ReportedContainerStatus,
    Running,
    Terminated,
    Waiting,
)

CREATING, INITIALIZING = "ContainerCreating", "PodInitializing"
IMAGE_ERROR, IMAGE_BACK_OFF = "ErrImagePull", "ImagePullBackOff"
CONFIG_ERROR = "CreateContainerConfigError"
CRASH_LOOP = "CrashLoopBackOff"
_LONGEST_MESSAGE = 4096


def waiting(container: KubeletContainer, reason: str) -> ReportedContainerStatus:
    """Return the status of a container that has never run."""
    return ReportedContainerStatus(
        name=container.name,
        image=container.image,
        state=ReportedContainerState(waiting=Waiting(reason=reason)),
    )


def without_image(status: ReportedContainerStatus, reason: str) -> ReportedContainerStatus:
    """Return that of a container whose image cannot be pulled, for an image `reason`."""
    message = f'Back-off pulling image "{status.image}"'
    if reason == IMAGE_ERROR:
        message = f'failed to pull and unpack image "{status.image}": not found'
    return replace(
        status, state=ReportedContainerState(waiting=Waiting(reason=reason, message=message))
    )


def not_created(status: ReportedContainerStatus, message: str) -> ReportedContainerStatus:
    """Return that of a container whose configuration refers to something that is not there."""
    reason = Waiting(reason=CONFIG_ERROR, message=message)
    return replace(status, state=ReportedContainerState(waiting=reason))


def started(status: ReportedContainerStatus, pod_uid: str, now: str) -> ReportedContainerStatus:
    """Return the status of a container that has just started."""
    return replace(
        status,
        container_id=f"sim://{digest(pod_uid, status.name, str(status.restart_count))}",
        image_id=f"{status.image}@sha256:{digest(status.image)}",
        started=True,
        ready=False,
        state=ReportedContainerState(running=Running(started_at=now)),
    )


def restarted(status: ReportedContainerStatus, pod_uid: str, now: str) -> ReportedContainerStatus:
    """Return the status of a container that has just started again."""
    again = replace(status, restart_count=status.restart_count + 1)
    return started(again, pod_uid, now)


def completed(status: ReportedContainerStatus, now: str) -> ReportedContainerStatus:
    """Return the status of an init container that has completed."""
    return replace(terminated(status, 0, now), ready=True)


def terminated(
    status: ReportedContainerStatus,
    exit_code: int,
    now: str,
    *,
    reason: str = "",
    message: str = "",
) -> ReportedContainerStatus:
    """Return the status of a container that has ended and is not restarted.

    `exit_code` is 128 + n after signal n, as container runtimes have it. The end of a long
    `message` is kept.
    """
    end = _end(status, exit_code, now, reason, message)
    return replace(status, ready=False, started=False, state=ReportedContainerState(terminated=end))


def crashed(status: ReportedContainerStatus, exit_code: int, now: str) -> ReportedContainerStatus:
    """Return the status of a container that has ended and waits for its restart."""
    again = Waiting(
        reason=CRASH_LOOP, message=f"back-off restarting failed container={status.name}"
    )
    return replace(
        status,
        ready=False,
        started=False,
        state=ReportedContainerState(waiting=again),
        last_state=ReportedContainerState(terminated=_end(status, exit_code, now)),
    )


def _end(
    status: ReportedContainerStatus, exit_code: int, now: str, reason: str = "", message: str = ""
) -> Terminated:
    running = status.state.running
    return Terminated(
        exit_code=exit_code,
        reason=reason or ("Completed" if exit_code == 0 else "Error"),
        started_at=running.started_at if running else now,
        finished_at=now,
        container_id=status.container_id,
        message=message[-_LONGEST_MESSAGE:] or msgspec.UNSET,
    )


def digest(*parts: str) -> str:
    """Return a hexadecimal identifier that follows from `parts`."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
