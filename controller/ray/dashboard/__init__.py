"""Ray's dashboards: their HTTP API, typed, and the actors that talk to them for the kinds.

A kind reads `Dashboards`; its plans list a `ProbeSubscription` for each probe and a `HeadCommand`
for each command. No worker waits for Ray. Here is what both pass to each other: heads, subscribers,
and what can go wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from msgspec import Struct

from controller.ray.api.names import DASHBOARD_PORT
from workqueue import Backoff

# Everything that can go wrong between Manta and a dashboard.
#
# DashboardError              no definite response, unless it is `RefusedByRay`
# +-- FenceClosed             this process does not lead: the command was not sent
# +-- NotFinished             Ray accepted the request, and works on it
# +-- NoResponse              time-out, reset, response cut short: the request may have been served
# +-- UnusableResponse        a response that no dashboard gives: HTML, 3xx, 5xx, no JSON, too long
# |   +-- NotAuthorized         401 or 403: the token is missing, wrong or out of date
# +-- RefusedByRay            Ray refused the request, and would refuse it again


class DashboardError(Exception):
    """Root of the tree. The message is a sentence for a condition, without the token."""


class FenceClosed(DashboardError):  # noqa: N818  the names say what is known, not that it is bad
    """The command was not sent, because this process does not lead."""


class NotFinished(DashboardError):  # noqa: N818
    """Ray accepted the request and has not finished it."""


class NoResponse(DashboardError):  # noqa: N818
    """No complete response came back."""


class UnusableResponse(DashboardError):  # noqa: N818
    """A response that does not answer the request."""


class NotAuthorized(UnusableResponse):
    """The dashboard did not accept the token."""


class RefusedByRay(DashboardError):  # noqa: N818
    """Ray refused the request, and would refuse it again."""


# One incarnation of a head, as an address of its dashboard or of the Serve proxy beside it.


class Head(Struct, frozen=True):
    """The dashboard of one head incarnation.

    A head that was replaced, or restarted in place, is another `Head`: nothing known of the former
    one applies to it.

    Attributes:
        restarts: restarts of the Ray container in that pod.
        port: port of the dashboard at that service.
        token_secret: name of the Secret with the token; empty if the cluster needs none.
    """

    cluster_uid: str
    pod_uid: str
    restarts: int
    namespace: str
    service: str
    port: int = DASHBOARD_PORT
    token_secret: str = ""

    def __str__(self) -> str:
        """Return a text for messages: `namespace/service:port`."""
        return f"{self.namespace}/{self.service}:{self.port}"


class ServeProxy(Head, frozen=True, kw_only=True):
    """The Serve proxy on a head pod, addressed at the pod itself and never given the token.

    It has an actor of its own, so that an unresponsive proxy delays nothing else.
    """

    pod: str
    address: str

    def __str__(self) -> str:
        """Return a text for messages: `namespace/pod:port`."""
        return f"{self.namespace}/{self.pod}:{self.port}"


# What a failed request leads to.

BACKOFF: Final = Backoff(base=1.0, cap=30.0)
"""Seconds until a failed request is repeated, by the failures before it."""

FAILURE_THRESHOLD: Final = 3
"""Consecutive failed requests before a failure is reported."""


# Subscribers, which subscribe to probes and submit commands.


class Subscriber(NamedTuple):
    """One object of one controller.

    Attributes:
        key: `namespace/name` of the object. Objects of two kinds may have the same key.
    """

    controller: str
    key: str


# A job to submit to Ray: the body of `POST /api/jobs/`.

PURPOSE: Final = "manta.dev/purpose"
"""Metadata of Manta's own jobs, for readers of Ray's list of jobs."""


@dataclass(frozen=True, slots=True)
class JobSubmission:
    """One job as Ray's job API accepts it.

    Attributes:
        submission_id: chosen by the caller and stored before the first call.
        runtime_env: Ray's runtime environment; not printed, because it may hold secrets.
    """

    entrypoint: str
    submission_id: str
    runtime_env: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    entrypoint_num_cpus: float = 0
    entrypoint_num_gpus: float = 0
    entrypoint_resources: Mapping[str, float] = field(default_factory=dict[str, float])

    def body(self) -> dict[str, Any]:
        """Return the body of the request, without zero and empty values, as KubeRay sends it."""
        values: dict[str, Any] = {
            "runtime_env": dict(self.runtime_env),
            "metadata": dict(self.metadata),
            "entrypoint_num_cpus": self.entrypoint_num_cpus,
            "entrypoint_num_gpus": self.entrypoint_num_gpus,
            "entrypoint_resources": dict(self.entrypoint_resources),
        }
        given = {name: value for name, value in values.items() if value}
        return {"entrypoint": self.entrypoint, "submission_id": self.submission_id, **given}
