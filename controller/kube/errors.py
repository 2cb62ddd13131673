"""Everything that can go wrong between Manta and an API server.

KubeError
+-- ConfigurationError      kubeconfig or in-cluster credentials unusable
+-- TransportError
|   +-- NotSent             certain: the server never saw the request
|   |   +-- Paused            the server asked for a longer pause than the request may take
|   +-- OutcomeUnknown      time-out, reset or truncated answer: a write may have happened
|       +-- WriteUnconfirmed  a write answered with success and an unusable body
+-- UnexpectedAnswer        HTML, wrong kind, broken JSON with a 2xx status
|   +-- WriteUnconfirmed      (both)
+-- StatusError             the server answered with a Status or a non-2xx code
    +-- BadRequest            400
    +-- Unauthorized          401
    +-- Forbidden             403
    +-- NotFound              404 of the API server: there is no such object
    +-- PathNotFound          404 without a Status: no such API, or not the API server's answer
    +-- MethodNotAllowed      405
    +-- Conflict              409, reason Conflict: precondition or resourceVersion lost
    +-- AlreadyExists         409, reason AlreadyExists
    +-- Expired               410: resourceVersion or continue token too old
    +-- TooLarge              413
    +-- UnsupportedMediaType  415
    +-- Invalid               422: validation or admission
    +-- TooManyRequests       429
    +-- ServerTimeout         504, also "too large resource version"
    +-- ServerError           other 5xx
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any


class KubeError(Exception):
    """Root of the tree."""


class ConfigurationError(KubeError):
    """Credentials or endpoint cannot be used. The message names cause and remedy."""


class TransportError(KubeError):
    """No usable answer came back."""


class NotSent(TransportError):  # noqa: N818  the names say what is known, not that it is bad
    """The request certainly never reached the server (connection refused, DNS)."""


class Paused(NotSent):
    """Not sent: the server asked every client to wait. `retry_after` is in seconds."""

    def __init__(self, message: str, *, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class OutcomeUnknown(TransportError):  # noqa: N818
    """The request may have been carried out: time-out, reset, or an answer cut short."""


class UnexpectedResponse(KubeError):  # noqa: N818
    """The server said success, but the body is not what was asked for."""


class WriteUnconfirmed(OutcomeUnknown, UnexpectedResponse):
    """A write was answered with 2xx, but not with the object: who answered is not certain."""


@dataclass(frozen=True, slots=True)
class Status:
    """The `Status` object of an error answer, or what could be salvaged of another body."""

    code: int
    reason: str = ""
    message: str = ""
    details: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def causes(self) -> tuple[tuple[str, str], ...]:
        """`details.causes` as (reason, message) pairs."""
        causes: list[dict[str, Any]] = self.details.get("causes") or []
        return tuple((c.get("reason", ""), c.get("message", "")) for c in causes)


class StatusError(KubeError):
    """The server refused or failed. `retry_after` is in seconds, None if it did not say."""

    def __init__(self, status: Status, *, retry_after: float | None = None) -> None:
        super().__init__(status.message or f"HTTP {status.code} {status.reason}".rstrip())
        self.status = status
        self.retry_after = retry_after


def may_have_happened(error: BaseException) -> bool:
    """Whether a write that ended with `error` may nevertheless have been carried out.

    True for an unknown outcome, for cancellation, and for those 5xx answers that do not say
    that nothing was done: a time-out behind the API server, a gateway's page.
    """
    if isinstance(error, StatusError):
        timed_out = error.status.code == 504 or error.status.reason in {"Timeout", "ServerTimeout"}
        return error.status.code >= 500 and (timed_out or error.retry_after is None)
    return isinstance(error, OutcomeUnknown | asyncio.CancelledError)


class BadRequest(StatusError):  # noqa: N818
    """400."""


class Unauthorized(StatusError):  # noqa: N818
    """401, after the one refresh of credentials did not help."""


class Forbidden(StatusError):  # noqa: N818
    """403: RBAC, quota or another admission plug-in. The message says which."""


class NotFound(StatusError):  # noqa: N818
    """404."""


class PathNotFound(StatusError):  # noqa: N818
    """404 that is no Status object. It says nothing about any object."""


class MethodNotAllowed(StatusError):  # noqa: N818
    """405."""


class Conflict(StatusError):  # noqa: N818
    """409, reason Conflict."""


class AlreadyExists(StatusError):  # noqa: N818
    """409, reason AlreadyExists."""


class Expired(StatusError):  # noqa: N818
    """410."""


class RequestEntityTooLarge(StatusError):  # noqa: N818
    """413."""


class UnsupportedMediaType(StatusError):  # noqa: N818
    """415."""


class Invalid(StatusError):  # noqa: N818
    """422."""


class TooManyRequests(StatusError):  # noqa: N818
    """429."""


class ServerTimeout(StatusError):  # noqa: N818
    """504."""


class ServerError(StatusError):
    """Any other 5xx."""


_BY_CODE: dict[int, type[StatusError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: MethodNotAllowed,
    409: Conflict,
    410: Expired,
    413: RequestEntityTooLarge,
    415: UnsupportedMediaType,
    422: Invalid,
    429: TooManyRequests,
    504: ServerTimeout,
}


def error_for(status: Status, *, retry_after: float | None = None) -> StatusError:
    """The exception of the tree that stands for `status`. Total: every code has one."""
    kind = _BY_CODE.get(status.code, ServerError if status.code >= 500 else StatusError)
    if kind is Conflict and status.reason == "AlreadyExists":
        kind = AlreadyExists
    return kind(status, retry_after=retry_after)
