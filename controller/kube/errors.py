"""Exceptions of the access to an API server.

KubeError
+-- ConfigurationError      kubeconfig or in-cluster credentials unusable
+-- TransportError
|   +-- NotSent             the server certainly never received the request
|   |   +-- Paused            the server asked for a longer pause than the request may take
|   +-- OutcomeUnknown      time-out, reset or truncated response: a write may have happened
|       +-- WriteUnconfirmed  the response to a write has status 2xx and an unusable body
+-- UnexpectedResponse      HTML, wrong kind, broken JSON with a 2xx status
|   +-- WriteUnconfirmed      (both)
+-- StatusError             the response is a Status or has a non-2xx code
    +-- BadRequest            400
    +-- Unauthorized          401
    +-- Forbidden             403
    +-- NotFound              404 of the API server: there is no such object
    +-- PathNotFound          404 without a Status: no such API, or the response of a proxy
    +-- MethodNotAllowed      405
    +-- Conflict              409, reason Conflict: precondition or resourceVersion failed
    +-- AlreadyExists         409, reason AlreadyExists
    +-- Expired               410: resourceVersion or continue token too old
    +-- RequestEntityTooLarge 413
    +-- UnsupportedMediaType  415
    +-- Invalid               422: validation or admission
    +-- TooManyRequests       429
    +-- ServerTimeout         504, also "too large resource version"
    +-- ServerError           other 5xx
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from msgspec import Struct, field

WEBHOOK_FAILED: Final = "Internal error occurred: failed calling webhook "
"""The beginning of a `Status`'s message after an admission webhook did not answer."""


class KubeError(Exception):
    """Root of the tree."""


class ConfigurationError(KubeError):
    """Credentials or endpoint are unusable. The message names the cause and the remedy."""


class TransportError(KubeError):
    """There is no usable response."""


class NotSent(TransportError):  # noqa: N818  named after what is known
    """The request certainly never reached the server (connection refused, DNS failure)."""


class Paused(NotSent):
    """The request was not sent, because the server asked to hold such requests back.

    The message quotes the server and has no number that changes; `retry_after` is in seconds.
    """

    def __init__(self, message: str, *, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class OutcomeUnknown(TransportError):  # noqa: N818
    """The server may have executed the request: time-out, reset or truncated response."""


class UnexpectedResponse(KubeError):  # noqa: N818
    """The status is 2xx, but the body is not what was requested."""


class WriteUnconfirmed(OutcomeUnknown, UnexpectedResponse):
    """The response to a write is 2xx without the object; it may come from a proxy."""


class Status(Struct, frozen=True):
    """The `Status` object of an error response, or what another error body reveals."""

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
    """The server rejected the request or failed. `retry_after` is in seconds, None if not given."""

    def __init__(self, status: Status, *, retry_after: float | None = None) -> None:
        super().__init__(status.message or f"HTTP {status.code} {status.reason}".rstrip())
        self.status = status
        self.retry_after = retry_after


def may_have_happened(error: BaseException) -> bool:
    """Return whether a write that ended with `error` may nevertheless have been executed.

    True for an unknown outcome, a cancellation, and 5xx responses that do not exclude it: a
    time-out behind the API server or the error page of a gateway. An admission webhook is called
    before anything is stored, so a failed call excludes it.
    """
    if isinstance(error, StatusError):
        if error.status.message.startswith(WEBHOOK_FAILED):
            return False
        timed_out = error.status.code == 504 or error.status.reason in {"Timeout", "ServerTimeout"}
        return error.status.code >= 500 and (timed_out or error.retry_after is None)
    return isinstance(error, OutcomeUnknown | asyncio.CancelledError)


def is_namespace_terminating(error: KubeError) -> bool:
    """Return whether a create was refused because the namespace is being deleted."""
    return isinstance(error, Forbidden) and any(
        reason == "NamespaceTerminating" for reason, _ in error.status.causes
    )


class BadRequest(StatusError):  # noqa: N818
    """400."""


class Unauthorized(StatusError):  # noqa: N818
    """401, also after the credentials were refreshed once."""


class Forbidden(StatusError):  # noqa: N818
    """403: RBAC, quota or another admission plug-in; the message names it."""


class NotFound(StatusError):  # noqa: N818
    """404."""


class PathNotFound(StatusError):  # noqa: N818
    """404 without a Status object. It says nothing about any object."""


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
    """Return the exception of the tree for `status`. Every code has one."""
    kind = _BY_CODE.get(status.code, ServerError if status.code >= 500 else StatusError)
    if kind is Conflict and status.reason == "AlreadyExists":
        kind = AlreadyExists
    return kind(status, retry_after=retry_after)
