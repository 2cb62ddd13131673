"""Exceptions of sources and informers.

SourceError                  raised by a source, or carried by an ERROR event
+-- ConnectionRefused          the server certainly never received the request
+-- Disconnected               reset, time-out, or truncated body
+-- Expired                    410: the revision or the continue token is too old
+-- ResourceVersionTooLarge    504: the server has not reached that revision yet
+-- Throttled                  429
+-- Unsupported                400, 422: the server does not support these parameters
+-- InternalError              500, reason InternalError
+-- Malformed                  the body is not what was requested
+-- Failed                     any other status
InformerError                misuse, or a wait that cannot succeed
+-- InvalidResourceVersion     not comparable (INF-58)
+-- HistoryChanged             the server went back in time: what is cached never happened (EXP-45)
+-- IndexFunctionError         an index function raised, or an index was named twice
+-- AlreadyStarted             `run` a second time
+-- InformerStopped            the informer has ended
"""

from __future__ import annotations

from collections.abc import Iterable


class SourceError(Exception):
    """Root of the errors of a source.

    Attributes:
        retry_after: the server's `Retry-After` in seconds, 0 if absent.
    """

    def __init__(self, message: str = "", *, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ConnectionRefused(SourceError):  # noqa: N818  named after what happened
    """The request never reached a server."""


class Disconnected(SourceError):  # noqa: N818
    """The connection broke or timed out, or the body ended inside a line or a page."""


class Expired(SourceError):  # noqa: N818
    """410, reason Expired or Gone, as a response or as an ERROR event."""


class ResourceVersionTooLarge(SourceError):  # noqa: N818
    """504: the server's cache did not reach the revision in time."""


class Throttled(SourceError):  # noqa: N818
    """429."""


class Unsupported(SourceError):  # noqa: N818
    """400 or 422: the usual response of servers without streaming lists."""


class InternalError(SourceError):
    """500 with reason InternalError."""


class Malformed(SourceError):  # noqa: N818
    """The status is 2xx, but the body is a `Table`, a `Status`, broken JSON or an endless line."""


class Failed(SourceError):  # noqa: N818
    """Any other status: 401, 403, 404, 5xx.

    Attributes:
        reason: the machine-readable reason of the Status object, if there was one.
    """

    def __init__(
        self, status: int, reason: str = "", message: str = "", *, retry_after: float = 0.0
    ) -> None:
        text = f"{status} {reason}: {message}" if message else f"{status} {reason}"
        super().__init__(text.strip(), retry_after=retry_after)
        self.status = status
        self.reason = reason


class InformerError(Exception):
    """Root of misuse and of waits that cannot succeed."""


class HistoryChanged(InformerError):  # noqa: N818
    """A list is older than the store at quorum, or contradicts it: its database was restored."""


class InvalidResourceVersion(InformerError, ValueError):  # noqa: N818
    """Not a positive decimal number without leading zeros."""


class IndexFunctionError(InformerError):
    """An index function raised on an object, or two indexes have the same name."""


class AlreadyStarted(InformerError):  # noqa: N818
    """`run` was called a second time."""


class InformerStopped(InformerError):  # noqa: N818
    """The informer has ended. If it never synced, the message gives the reason."""


_TOO_LARGE = "Too large resource version"


def error_from_status(
    code: int,
    reason: str = "",
    message: str = "",
    *,
    causes: Iterable[tuple[str, str]] = (),
    retry_after: float = 0.0,
) -> SourceError:
    """Return the exception of the tree for a Status. Every status has one.

    `code` is the HTTP status code or that of the Status; `retry_after` is in seconds, from the
    header or from `details.retryAfterSeconds`.
    """
    if code == 504 and _names_too_large(message, causes):
        return ResourceVersionTooLarge(message, retry_after=retry_after)
    said = message or f"{code} {reason}".strip()
    if code == 410 or reason in {"Expired", "Gone"}:
        return Expired(said, retry_after=retry_after)
    if code == 429:
        return Throttled(said, retry_after=retry_after)
    if code in {400, 422}:
        return Unsupported(said, retry_after=retry_after)
    if code == 500 and reason == "InternalError":
        return InternalError(said, retry_after=retry_after)
    return Failed(code, reason, message, retry_after=retry_after)


def _names_too_large(message: str, causes: Iterable[tuple[str, str]]) -> bool:
    """Return whether the cause, or the message of older servers, names the limit."""
    return _TOO_LARGE in message or any(
        kind == "ResourceVersionTooLarge" or _TOO_LARGE in text for kind, text in causes
    )
