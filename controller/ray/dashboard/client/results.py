"""Ray's responses, as values. Everything else is an error."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from datetime import datetime


class JobStatus(Enum):
    """Ray's own states of a job."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    STOPPED = "STOPPED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"

    @property
    def terminal(self) -> bool:
        """True if Ray will never change it again."""
        return self in _TERMINAL


_TERMINAL: Final = frozenset({JobStatus.STOPPED, JobStatus.SUCCEEDED, JobStatus.FAILED})


@dataclass(frozen=True, slots=True)
class JobInfo:
    """Ray's record of a job.

    Attributes:
        submission_id: the requested id.
        status: its state.
        message: Ray's message, with the last lines of the log of a failed job; bounded.
        start_time: time of its acceptance.
        end_time: time of its end.
        driver_exit_code: exit code of the driver after it has ended by itself.
    """

    submission_id: str
    status: JobStatus
    message: str = ""
    start_time: datetime | None = None
    end_time: datetime | None = None
    driver_exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class NoSuchJob:
    """Ray itself reports that it does not know the job."""


@dataclass(frozen=True, slots=True)
class RayVersion:
    """The version of Ray that answers.

    Attributes:
        ray_version: version, such as `2.60.0`.
        session_name: name of this run of the head, which changes with each restart.
    """

    ray_version: str
    session_name: str = ""


@dataclass(frozen=True, slots=True)
class Submitted:
    """Ray has accepted the job.

    Attributes:
        submission_id: id of the job.
    """

    submission_id: str


@dataclass(frozen=True, slots=True)
class JobStopped:
    """Ray accepted the request to stop a job.

    Attributes:
        stopping: False if the job had ended before. A job that is being stopped is `STOPPED`
            seconds later; one that waits for resources may never be.
    """

    stopping: bool


@dataclass(frozen=True, slots=True)
class JobDeleted:
    """Ray has forgotten the job."""
