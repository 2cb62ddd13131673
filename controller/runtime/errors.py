"""Errors of the runtime.

RuntimeFailure
+-- Terminal            this object cannot be reconciled until it changes; no retry
+-- SyncTimeout         a cache never became complete; the message names cause and remedy
+-- ServerUnusable      the API server went back in time, or its revisions cannot be compared
+-- ManagerMisuse       started twice, or added to while stopping
+-- LeadershipLost      another process holds the lease: this process must end
+-- StopTimeout         something did not end within the grace period
"""

from __future__ import annotations

from typing import cast


def leaves(error: Exception) -> list[Exception]:
    """Return the errors inside nested groups; the error itself if it is not a group.

    The text of a group, "unhandled errors in a TaskGroup", does not help a user.
    """
    if not isinstance(error, ExceptionGroup):
        return [error]
    nested = cast("ExceptionGroup[Exception]", error)
    return [leaf for inner in nested.exceptions for leaf in leaves(inner)]


class RuntimeFailure(Exception):  # noqa: N818  root of the tree
    """Root of the tree."""


class Terminal(RuntimeFailure):
    """Raised by `Kind.plan`: no retry until an event says that something changed.

    `reason` is CamelCase, for the event on the object.
    """

    def __init__(self, message: str, *, reason: str = "TerminalError") -> None:
        super().__init__(message)
        self.reason = reason


class SyncTimeout(RuntimeFailure):
    """Caches did not become complete in time (CTL-5); one paragraph with cause and remedy."""


class ServerUnusable(RuntimeFailure):
    """What is cached cannot be compared with the API server; one paragraph with the remedy."""


class ManagerMisuse(RuntimeFailure):
    """The manager was started twice, or a runnable was added while it was stopping."""


class LeadershipLost(RuntimeFailure):
    """Another process leads now; this one must end at once."""


class StopTimeout(RuntimeFailure):
    """Tasks did not end within the grace period and were abandoned."""
