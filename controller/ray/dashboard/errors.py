"""Everything that can go wrong between Manta and a dashboard.

DashboardError              no definite response, unless it is `RefusedByRay`
+-- FenceClosed             this process does not lead: the command was not sent
+-- NotFinished             Ray accepted the request, and works on it
+-- NoResponse              time-out, reset, response cut short: the request may have been served
|   +-- Unreachable           certain: it was not (refused connection, no such name, no token)
+-- UnusableResponse        a response that no dashboard gives: HTML, 5xx, no JSON
|   +-- Redirected            3xx; never followed, for the token would go along
|   +-- TooLarge              more bytes than any valid response has
|   +-- NotAuthorized         401 or 403: the token is missing, wrong or out of date
+-- RefusedByRay            Ray refused the request, and would refuse it again
"""

from __future__ import annotations


class DashboardError(Exception):
    """Root of the tree. The message is a sentence for a condition, without the token."""


class FenceClosed(DashboardError):  # noqa: N818  the names say what is known, not that it is bad
    """The command was not sent, because this process does not lead."""


class NotFinished(DashboardError):  # noqa: N818
    """Ray accepted the request and has not finished it."""


class NoResponse(DashboardError):  # noqa: N818
    """No complete response came back."""


class Unreachable(NoResponse):
    """The request certainly never reached the dashboard."""


class UnusableResponse(DashboardError):  # noqa: N818
    """A response that does not answer the request."""


class Redirected(UnusableResponse):
    """A redirect, which is not followed."""


class TooLarge(UnusableResponse):
    """The response was longer than allowed; the rest was not read."""


class NotAuthorized(UnusableResponse):
    """The dashboard did not accept the token."""


class RefusedByRay(DashboardError):  # noqa: N818
    """Ray refused the request, and would refuse it again."""
