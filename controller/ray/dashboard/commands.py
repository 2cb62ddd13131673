"""What can be asked of a dashboard once: idempotent commands and how they end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from datetime import datetime

    from controller.ray.dashboard.head import Head
    from controller.ray.dashboard.results import CommandValue
    from controller.ray.dashboard.submission import Submission


@dataclass(frozen=True, slots=True)
class SubmitJob:
    """Submit a job. An id that Ray knows already counts as submitted.

    A submission that has not begun is given up when the object that wants it loses its last
    interest in the head: nobody would learn of the job.

    Attributes:
        id: identity of the command, the same whenever it is handed over again.
        deadline: after it no further attempt is made.
        submission: the job.
    """

    id: str
    deadline: datetime
    submission: Submission

    @property
    def job_id(self) -> str:
        """Submission id of the job that this is about."""
        return self.submission.submission_id


@dataclass(frozen=True, slots=True)
class StopJob:
    """Stop a job. Done when Ray has taken note, or knows no such job; `id`, `deadline` as above."""

    id: str
    deadline: datetime
    job_id: str


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """Make Ray forget an ended job; `id`, `deadline` as above.

    Ray answers 500 while the job still runs: it is asked again until the deadline.
    """

    id: str
    deadline: datetime
    job_id: str


Command: TypeAlias = SubmitJob | StopJob | DeleteJob


@dataclass(frozen=True, slots=True)
class Order:
    """A command for one head."""

    head: Head
    command: Command


@dataclass(frozen=True, slots=True)
class Done:
    """Ray did it, or had done it before."""

    value: CommandValue


@dataclass(frozen=True, slots=True)
class Refused:
    """Ray's definite no; trying again is pointless. `message` is Ray's."""

    message: str


@dataclass(frozen=True, slots=True)
class Expired:
    """No definite answer before the deadline: Ray may have done it. `message` says what failed."""

    message: str


Outcome: TypeAlias = Done | Refused | Expired
