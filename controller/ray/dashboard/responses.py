"""Ray's responses, as values. Everything else is an error."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Final, Generic, TypeVar

import msgspec

from controller.apimachinery.redaction import plain
from controller.ray.dashboard import (
    NotAuthorized,
    RefusedByRay,
    UnusableResponse,
)
from controller.ray.dashboard.transport import DashboardResponse


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


class JobInfo(msgspec.Struct, frozen=True):
    """Ray's record of a job.

    Attributes:
        message: Ray's message, with the last lines of the log of a failed job; bounded.
    """

    submission_id: str
    status: JobStatus
    message: str = ""
    start_time: datetime | None = None
    end_time: datetime | None = None


class NoSuchJob(msgspec.Struct, frozen=True):
    """Ray itself reports that it does not know the job."""


class RayVersion(msgspec.Struct, frozen=True):
    """The version of Ray that answers."""

    ray_version: str


# The meaning of responses: the only module where bytes of a dashboard become values.
#
# Only a response that Ray sends for a request becomes a value. Everything else (a proxy's page, a
# 500 with or without JSON, half a document, another job) is an error and never a status.

T = TypeVar("T")

MAX_MESSAGE = 8192
"""Maximum characters of a job's message to keep, from its beginning and its end."""

MAX_EXCERPT = 300
"""Maximum characters of an unexpected body that a message quotes."""

_MESSAGE_START = 1024
_DUPLICATE = "Please use a different submission_id"
_REFUSED_BY_AGENT = "Request failed with status code 400"
_REFUSALS = frozenset({400, 413, 422})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Job(msgspec.Struct):
    """Ray's record of a job, as its job API writes it."""

    status: JobStatus
    submission_id: str | None = None
    job_id: str | None = None
    message: str | None = None
    start_time: int | None = None
    end_time: int | None = None


class _Listing(msgspec.Struct, Generic[T]):
    total: int
    result: list[T]


class _Data(msgspec.Struct, Generic[T]):
    result: _Listing[T]


class StateListing(msgspec.Struct, Generic[T]):
    """A list of Ray's state API; `result` tells whether Ray could make it."""

    result: bool
    data: _Data[T]

    @property
    def items(self) -> list[T]:
        """What is listed."""
        return self.data.result.result

    @property
    def is_complete(self) -> bool:
        """True if Ray lists all that there is."""
        return self.result and len(self.items) >= self.data.result.total


class _Submission(msgspec.Struct):
    submission_id: str | None = None
    job_id: str | None = None


class _Stop(msgspec.Struct):
    stopped: bool


class _Delete(msgspec.Struct):
    deleted: bool


_job = msgspec.json.Decoder(Job)
_version = msgspec.json.Decoder(RayVersion)
_submission = msgspec.json.Decoder(_Submission)
_stop = msgspec.json.Decoder(_Stop)
_delete = msgspec.json.Decoder(_Delete)


def job(answer: DashboardResponse, job_id: str) -> JobInfo | NoSuchJob:
    """Parse the response to `GET /api/jobs/<id>`. Raises `UnusableResponse`."""
    if _is_unknown(answer, job_id):
        return NoSuchJob()
    found = decoded(answer, _job)
    if job_id not in (found.submission_id, found.job_id):
        other = bounded(found.submission_id or "")
        raise UnusableResponse(f"the answer is about job {other}, not {job_id}")
    return JobInfo(
        submission_id=job_id,
        status=found.status,
        message=bounded(found.message or ""),
        start_time=moment(found.start_time),
        end_time=moment(found.end_time),
    )


def submission(answer: DashboardResponse, job_id: str) -> None:
    """Check the response to `POST /api/jobs/`: Ray has the job.

    Ray answers a duplicate with 500 and the text of an inner 400.

    Raises:
        RefusedByRay: the submission is wrong.
        UnusableResponse: anything else.
    """
    text = _text(answer)
    if answer.status in {400, 500} and _DUPLICATE in text and job_id in text:
        return
    check_refusal(answer)
    if answer.status == 500 and _REFUSED_BY_AGENT in text:
        raise RefusedByRay(last_line(text))
    made = decoded(answer, _submission)
    if job_id not in (made.submission_id, made.job_id):
        raise UnusableResponse(f"job {job_id} was submitted, the answer names another")


def stop(answer: DashboardResponse, job_id: str) -> NoSuchJob | None:
    """Parse the response to `POST .../stop`. Raises `RefusedByRay` or `UnusableResponse`.

    A job that is being stopped is `STOPPED` seconds later; one that waits for resources may never
    be.
    """
    if _is_unknown(answer, job_id):
        return NoSuchJob()
    check_refusal(answer)
    decoded(answer, _stop)
    return None


def deletion(answer: DashboardResponse, job_id: str) -> None:
    """Check the response to `DELETE .../<id>`. Raises `RefusedByRay` or `UnusableResponse`."""
    if _is_unknown(answer, job_id):
        return
    check_refusal(answer)
    if not decoded(answer, _delete).deleted:
        raise UnusableResponse(f"Ray did not delete job {job_id}")


def version(answer: DashboardResponse) -> RayVersion:
    """Parse the response to `GET /api/version`. Raises `UnusableResponse`."""
    return RayVersion(bounded(decoded(answer, _version).ray_version))


def gcs_health(answer: DashboardResponse) -> None:
    """Check the response to `GET /api/gcs_healthz`. Raises `UnusableResponse` unless it is well."""
    if answer.status != 200 or answer.body.strip() != b"success":
        raise unexpected(answer)


def excerpt(body: bytes) -> str:
    """Return the beginning of an unexpected body, on one line, for a message."""
    text = " ".join(plain(body[: 4 * MAX_EXCERPT].decode("utf-8", "replace")).split())
    if not text:
        return "(empty body)"
    return text if len(text) <= MAX_EXCERPT else text[:MAX_EXCERPT] + "..."


def last_line(text: str) -> str:
    """Return the last line of a traceback, which states the error; bounded."""
    lines = [line.strip() for line in text.splitlines() if line.strip(" .")]
    return lines[-1][:MAX_EXCERPT] if lines else "(no reason given)"


def decoded(answer: DashboardResponse, decoder: msgspec.json.Decoder[T]) -> T:
    """Return the value in a response of status 200 with JSON."""
    if answer.status != 200 or answer.content_type != "application/json":
        raise unexpected(answer)
    try:
        return decoder.decode(answer.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnusableResponse(bounded(f"the answer cannot be read: {error}")) from error


def unexpected(answer: DashboardResponse) -> UnusableResponse:
    """Return the error for a response that Ray never gives to the request."""
    if 300 <= answer.status < 400:
        return UnusableResponse(f"HTTP {answer.status}: redirects are not followed")
    text = f"HTTP {answer.status}: {_reason(answer)}"
    if answer.status in {401, 403}:
        return NotAuthorized(text)
    return UnusableResponse(text)


def _reason(answer: DashboardResponse) -> str:
    """Return the last line of a traceback, or the beginning of any other text."""
    if answer.body.startswith(b"Traceback"):
        return last_line(_text(answer))
    return excerpt(answer.body)


def _is_unknown(answer: DashboardResponse, job_id: str) -> bool:
    """Return whether Ray itself does not know the job; another 404 does not mean that."""
    return (
        answer.status == 404
        and answer.content_type == "text/plain"
        and _text(answer).strip() == f"Job {job_id} does not exist"
    )


def check_refusal(answer: DashboardResponse, reason: Callable[[str], str] | None = None) -> None:
    """Raise `RefusedByRay` if Ray itself, not a proxy, refused the request."""
    if answer.status in _REFUSALS and answer.content_type in {"text/plain", "application/json"}:
        raise RefusedByRay((reason or last_line)(_text(answer)))


def _text(answer: DashboardResponse) -> str:
    return plain(answer.body.decode("utf-8", "replace"))


def moment(milliseconds: int | None) -> datetime | None:
    """Return a time that Ray gives in milliseconds since 1970; None for 0."""
    if not milliseconds:
        return None
    try:
        return _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError as error:
        raise UnusableResponse(f"{milliseconds} is no time") from error


def bounded(message: str) -> str:
    """Return a message of Ray without codes for terminals, cut in the middle if it is long."""
    message = plain(message)
    if len(message) <= MAX_MESSAGE:
        return message
    cut = "\n...\n"
    end = MAX_MESSAGE - _MESSAGE_START - len(cut)
    return message[:_MESSAGE_START] + cut + message[-end:]
