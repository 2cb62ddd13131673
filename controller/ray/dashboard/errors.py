"""Everything that can go wrong between Manta and a dashboard.

DashboardError              no definite answer, unless it is `RefusedByRay`
+-- FenceClosed             this process does not lead: the command was not sent
+-- NoAnswer                time-out, reset, an answer cut short: the request may have been served
|   +-- Unreachable           certain: it was not (refused connection, no such name, no token)
+-- UnexpectedAnswer        something answered, but not what a dashboard says: HTML, 5xx, no JSON
|   +-- Redirected            3xx; never followed, for the token would go along
|   +-- TooLarge              more bytes than any right answer has
|   +-- NotAuthorized         401 or 403: the token is missing, wrong or out of date
+-- RefusedByRay            Ray's definite no: the request is wrong and will stay so
"""

from __future__ import annotations


class DashboardError(Exception):
    """Root of the tree. The message is a sentence for a condition; it holds no token."""


class FenceClosed(DashboardError):  # noqa: N818  the names say what is known, not that it is bad
    """The command was not sent, because this process does not lead."""


class NoResponse(DashboardError):  # noqa: N818
    """No complete answer came back."""


class Unreachable(NoResponse):
    """The request certainly never reached the dashboard."""


class UnexpectedResponse(DashboardError):  # noqa: N818
    """An answer that says nothing about what was asked."""


class Redirected(UnexpectedResponse):
    """A redirect, which is not followed."""


class TooLarge(UnexpectedResponse):
    """The answer was longer than allowed; the rest was not read."""


class NotAuthorized(UnexpectedResponse):
    """The dashboard did not accept the token."""


class RefusedByRay(DashboardError):  # noqa: N818
    """Ray refused the request for what it is."""
