"""Ray Serve's state, and what else uses a cluster: values, and the meaning of Ray's responses.

Only what Ray itself reports becomes a value. A missing list of applications is an error, never an
empty list.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import msgspec

from controller.ray.dashboard import UnusableResponse
from controller.ray.dashboard.responses import (
    MAX_EXCERPT,
    Job,
    StateListing,
    bounded,
    check_refusal,
    decoded,
    excerpt,
    last_line,
    moment,
    unexpected,
)
from controller.ray.dashboard.transport import DashboardResponse

RUNNING: Final = "RUNNING"
"""Status of an application with only healthy deployments; also state of a replica."""


class ServeDeployment(msgspec.Struct, frozen=True):
    """One deployment of an application.

    Attributes:
        status: Ray's status: `UPDATING`, `HEALTHY`, `UNHEALTHY`, `UPSCALING` ...
        target: replicas that Ray wants at the present capacity.
    """

    status: str
    message: str = ""
    target: int = 0
    running: int = 0


class ServeApplication(msgspec.Struct, frozen=True):
    """One application.

    Attributes:
        status: Ray's status: `DEPLOYING`, `RUNNING`, `DEPLOY_FAILED`, `UNHEALTHY` ...
        config: deployed config as Ray stores it; None if the application was deployed without one.
    """

    status: str
    message: str = ""
    deployments: Mapping[str, ServeDeployment] = msgspec.field(
        default_factory=dict[str, ServeDeployment]
    )
    config: Mapping[str, Any] | None = None


class ServeState(msgspec.Struct, frozen=True):
    """The state that Ray Serve reports.

    Attributes:
        target_capacity: percent of the full size; None stands for 100.
        has_controller: whether the dashboard found Serve's controller. If not, Serve does not run
            or its controller did not answer in time, and the other attributes have no meaning.
    """

    applications: Mapping[str, ServeApplication] = msgspec.field(
        default_factory=dict[str, ServeApplication]
    )
    target_capacity: float | None = None
    has_controller: bool = True


class ProxyHealth(msgspec.Struct, frozen=True):
    """The health that a proxy of Serve reports.

    Attributes:
        message: the proxy's own reason if it does not; else empty.
    """

    healthy: bool
    message: str = ""


_DETAILS: Final = re.compile(r" \[type=.*")
"""Text that pydantic appends for programmers."""


class _Replica(msgspec.Struct):
    state: str = ""


class _Deployment(msgspec.Struct):
    status: str
    message: str | None = None
    target_num_replicas: int | None = None
    replicas: list[_Replica] = []


class _Application(msgspec.Struct):
    status: str
    message: str | None = None
    deployments: dict[str, _Deployment] = {}
    deployed_app_config: dict[str, Any] | None = None


class _State(msgspec.Struct):
    applications: dict[str, _Application]
    target_capacity: float | None = None
    controller_info: dict[str, Any] | None = None


_state = msgspec.json.Decoder(_State)


def serve_state(answer: DashboardResponse) -> ServeState:
    """Parse the response to `GET /api/serve/applications/`. Raises `UnusableResponse`."""
    found = decoded(answer, _state)
    return ServeState(
        {bounded(name): _application(each) for name, each in found.applications.items()},
        found.target_capacity,
        has_controller=found.controller_info is None or bool(found.controller_info),
    )


def proxy_health(answer: DashboardResponse) -> ProxyHealth:
    """Parse the response to `GET /-/healthz` of a proxy. Raises `UnusableResponse`."""
    if answer.content_type == "text/plain":
        text = excerpt(answer.body)
        if answer.status == 200 and text == "success":
            return ProxyHealth(healthy=True)
        if answer.status == 503:
            return ProxyHealth(healthy=False, message=text)
    raise unexpected(answer)


def serve_config_accepted(answer: DashboardResponse) -> None:
    """Check the response to `PUT /api/serve/applications/`, which has no body.

    Raises:
        RefusedByRay: the config is wrong.
        UnusableResponse: anything else.
    """
    check_refusal(answer, _validation_errors)
    if answer.status != 200 or answer.body.strip():
        raise unexpected(answer)


def _validation_errors(text: str) -> str:
    """Return the errors in a text of pydantic: a line with the field, then the error.

    For any other text it returns the last line.
    """
    lines = text.splitlines()
    found = [
        f"{field}: {_DETAILS.sub('', error).strip()}"
        for field, error in itertools.pairwise(lines[1:])
        if field.strip() and not field.startswith(" ") and error.startswith("  ")
    ]
    return "; ".join(found)[:MAX_EXCERPT] if found else last_line(text)


def _application(found: _Application) -> ServeApplication:
    return ServeApplication(
        bounded(found.status),
        bounded(found.message or ""),
        {bounded(name): _deployment(each) for name, each in found.deployments.items()},
        found.deployed_app_config,
    )


def _deployment(found: _Deployment) -> ServeDeployment:
    return ServeDeployment(
        bounded(found.status),
        bounded(found.message or ""),
        found.target_num_replicas or 0,
        sum(replica.state == RUNNING for replica in found.replicas),
    )


# Whether anybody uses a cluster, by Ray's own reports: values, and the meaning of its answers.
#
# A driver (a script, a notebook, a connected client), a submitted job that has not ended and a
# Serve application are use. Whatever Ray does not answer is an error, never idleness.

_INACTIVE: Final = "INACTIVE"
_ACTIVE: Final = "ACTIVE"
_CONTROLLER: Final = "ServeController"
_NAMED: Final = 3
"""Maximum jobs and applications that a sentence names."""


@dataclass(frozen=True, slots=True)
class RayActivity:
    """What uses a cluster.

    Attributes:
        uses: sentences about it; empty if nothing does.
        last: end of the last driver or job by the clock of the head; None if none has ended.
        reported: the time of the answer by the same clock. Equal answers of other times are equal.
    """

    uses: tuple[str, ...]
    last: datetime | None
    reported: datetime = field(compare=False)


class _Component(msgspec.Struct):
    is_active: str
    timestamp: float
    reason: str | None = None
    last_activity_at: float | None = None


class _Actor(msgspec.Struct):
    class_name: str
    state: str


_components = msgspec.json.Decoder(dict[str, _Component])
_jobs = msgspec.json.Decoder(list[Job])
_actors = msgspec.json.Decoder(StateListing[_Actor])


def has_serve_controller(answer: DashboardResponse) -> bool:
    """Return whether Serve runs, by the response to `GET /api/v0/actors`.

    Serve's own state does not say: where its controller does not answer in time, it looks as if
    there were none. Raises `UnusableResponse`.
    """
    found = decoded(answer, _actors)
    if not found.result:
        raise UnusableResponse("Ray cannot list its actors")
    return any(each.class_name == _CONTROLLER and each.state != "DEAD" for each in found.items)


def activity(
    components: DashboardResponse, jobs: DashboardResponse, serve: ServeState | None
) -> RayActivity:
    """Return what uses the cluster.

    Args:
        components: the response to `GET /api/component_activities`.
        jobs: the response to `GET /api/jobs/`.
        serve: the state of Serve; None if it does not run.

    Raises:
        UnusableResponse: one of them says nothing definite.
    """
    found, listed = decoded(components, _components), decoded(jobs, _jobs)
    if "driver" not in found:
        raise UnusableResponse("Ray does not say whether drivers are connected")
    if serve is not None and not serve.has_controller:
        raise UnusableResponse("Serve runs, and its controller did not answer in time")
    open_jobs = [each for each in listed if not each.status.terminal]
    ends = [_seconds(each.last_activity_at) for each in found.values()]
    ends += [moment(each.end_time) for each in listed]
    return RayActivity(
        (
            *(use for name, each in sorted(found.items()) for use in _use(name, each)),
            *_named("job", (f"{each.submission_id or each.job_id}" for each in open_jobs)),
            *_named("Serve application", serve.applications if serve is not None else ()),
        ),
        max(filter(None, ends), default=None),
        _reported(found["driver"]),
    )


def _reported(driver: _Component) -> datetime:
    reported = _seconds(driver.timestamp)
    if reported is None:
        raise UnusableResponse("Ray's answer has no time")
    return reported


def _use(name: str, component: _Component) -> Iterable[str]:
    if component.is_active == _INACTIVE:
        return
    if component.is_active != _ACTIVE:
        reason = bounded(component.reason or "no reason given")
        raise UnusableResponse(f"Ray cannot say whether {bounded(name)} is active: {reason}")
    # Ray's reason for drivers counts them; the sentence does not, so that it changes less often.
    yield "a driver is connected" if name == "driver" else f"{bounded(name)} is active"


def _named(noun: str, names: Iterable[Any]) -> Iterable[str]:
    found = sorted(bounded(str(name)) for name in names)
    if found:
        more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        yield f"{noun} {', '.join(found[:_NAMED])}{more}"


def _seconds(since: float | None) -> datetime | None:
    return moment(int(since * 1000)) if since else None
