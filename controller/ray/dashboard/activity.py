"""Whether anybody uses a cluster, by Ray's own reports: values, and the meaning of its answers.

A driver (a script, a notebook, a connected client), a submitted job that has not ended and a Serve
application are use. Whatever Ray does not answer is an error, never idleness.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec

from controller.ray.dashboard.responses import JobStatus, bounded, decoded, moment
from controller.ray.dashboard.values import UnusableResponse

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from controller.ray.dashboard.serve import ServeState
    from controller.ray.dashboard.transport import DashboardResponse

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


class _Job(msgspec.Struct):
    status: JobStatus
    submission_id: str | None = None
    job_id: str | None = None
    end_time: int | None = None


class _Actor(msgspec.Struct):
    class_name: str
    state: str


class _Listing(msgspec.Struct):
    total: int
    result: list[_Actor]


class _Data(msgspec.Struct):
    result: _Listing


class _Actors(msgspec.Struct):
    result: bool
    data: _Data


_components = msgspec.json.Decoder(dict[str, _Component])
_jobs = msgspec.json.Decoder(list[_Job])
_actors = msgspec.json.Decoder(_Actors)


def has_serve_controller(answer: DashboardResponse) -> bool:
    """Return whether Serve runs, by the response to `GET /api/v0/actors`.

    Serve's own state does not say: where its controller does not answer in time, it looks as if
    there were none. Raises `UnusableResponse`.
    """
    found = decoded(answer, _actors)
    if not found.result:
        raise UnusableResponse("Ray cannot list its actors")
    actors = found.data.result.result
    return any(each.class_name == _CONTROLLER and each.state != "DEAD" for each in actors)


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
