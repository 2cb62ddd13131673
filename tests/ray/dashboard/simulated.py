"""The simulated Ray of `manta dev` as tests use it: its dashboards can be told to misbehave.

`SimulatedRay.connect` stands in for the connection of `DashboardActors`. Time is the running
loop's, so jobs run in virtual time; faults can be switched on for a cluster, a head or all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum, auto

from msgspec.structs import replace

from controller.ray.dashboard import Head, NoResponse, ServeProxy
from controller.ray.dashboard.client import TIMEOUT, DashboardClient
from controller.ray.dashboard.responses import JobStatus
from controller.ray.dashboard.transport import DashboardRequest, DashboardResponse
from devcluster import simulated_ray as rays
from devcluster.simulated_ray import (
    EPOCH,
    NEVER,
    STOPPING,
    Course,
    Incarnation,
    Job,
    end_message,
)
from devcluster.simulated_serve import SimulatedServe
from tests.ray.dashboard.recorded import recorded

__all__ = ["EPOCH", "NEVER", "STOPPING", "Course", "Fault", "Incarnation", "Job", "SimulatedRay"]


def incarnation(head: Head) -> Incarnation:
    return head.cluster_uid, head.pod_uid, head.restarts


class Fault(Enum):
    """How a dashboard misbehaves."""

    REFUSES = auto()  # nothing listens
    SILENT = auto()  # accepts and never answers; what was asked is not done
    LOSES_ANSWERS = auto()  # does what was asked, and the answer is lost
    ERROR = auto()  # 500 with a traceback
    ERROR_JSON = auto()  # 500 with JSON that looks like a job
    HTML = auto()  # 200 with a proxy's page
    TRUNCATED = auto()  # half of the answer
    FORBIDDEN = auto()  # 403
    NO_CONTROLLER = auto()  # finds no controller of Serve: the same as before Serve was started


@dataclass
class Asked:
    """A request that arrived."""

    at: float
    head: Head
    method: str
    path: str
    token: str


@dataclass
class SimulatedRay(rays.SimulatedRay):
    """All Rays of a test, with dashboards that can be told to misbehave.

    A request to a head that `live` says is not there is refused, or goes to the incarnation that
    `live` names: a head service leads to the head that is there now.

    Attributes:
        live: the incarnation that serves requests to a head, None if there is none.
        latency: seconds that an ordinary answer takes, by head.
        token: that requests must carry; the client sends `client_token()`.
        asked: every request, if `recording`.
    """

    live: Callable[[Head], Incarnation | None] = incarnation
    latency: Callable[[Head], float] = lambda _head: 0.005
    timeout: float = TIMEOUT
    token: str = ""
    client_token: Callable[[], str] = lambda: ""
    recording: bool = True
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0
    in_flight: int = 0
    most_in_flight: int = 0
    _faults: dict[str, Fault] = field(default_factory=dict)

    # What a test does.

    def fault(
        self, fault: Fault | None, *, cluster: str = "", pod: str = "", proxy: str = ""
    ) -> None:
        """Switch a fault on, or off.

        It is that of the dashboards of a cluster uid, a head pod uid or, without one, all; or of
        the Serve proxy on the pod with the uid `proxy`.
        """
        key = f"proxy of {proxy}" if proxy else cluster or pod
        if fault is None:
            self._faults.pop(key, None)
        else:
            self._faults[key] = fault

    def end(self, job_id: str, status: JobStatus, message: str = "") -> None:
        """End a job now, on whatever head it runs. KeyError if none has it."""
        for job in self._named(job_id):
            job.ended = (self.now(), status, message or end_message(status))

    def add(self, head: Head, job_id: str, *, course: Course | None = None) -> Job:
        """Let a submitter have submitted a job."""
        body = {"entrypoint": "python job.py", "submission_id": job_id}
        return self._accept(incarnation(head), {**body}, course)

    def lose_jobs(self, head: Head) -> None:
        """Forget all jobs of this incarnation."""
        self._jobs.pop(incarnation(head), None)

    def connect_driver(self, place: Incarnation) -> None:
        """Let somebody use this incarnation, until `disconnect_driver`."""
        self._drivers[place] = None

    def disconnect_driver(self, place: Incarnation) -> None:
        """Let the driver end now."""
        self._drivers[place] = self.now()

    # What a test looks at.

    def serves(self) -> list[tuple[Incarnation, SimulatedServe]]:
        """All Serves, in the order in which they were first asked."""
        return list(self._serves.items())

    def job(self, head: Head, job_id: str) -> Job | None:
        return self.job_at(incarnation(head), job_id)

    def running(self) -> list[tuple[Incarnation, str]]:
        """All jobs that have not ended."""
        now = self.now()
        return [
            (place, job.id)
            for place, jobs in self._jobs.items()
            for job in jobs.values()
            if not job.status(now).terminal
        ]

    def submissions(self, job_id: str = "") -> int:
        """How many submissions were accepted, of all ids or of one."""
        return sum(not job_id or accepted == job_id for _, accepted in self.accepted)

    def requests(self, *, cluster: str = "", method: str = "") -> int:
        """How many requests arrived."""
        return sum(
            (not cluster or each.head.cluster_uid == cluster)
            and (not method or each.method == method)
            for each in self.asked
        )

    def wall(self) -> datetime:
        """The time of day that goes with the loop's time."""
        return self.epoch + timedelta(seconds=self.now())

    # The connection.

    async def connect(self, head: Head) -> DashboardClient:
        self.connections += 1

        async def send(request: DashboardRequest) -> DashboardResponse:
            return await self._served(head, request)

        return DashboardClient(send, token=self.client_token(), timeout=self.timeout)

    async def _served(self, head: Head, request: DashboardRequest) -> DashboardResponse:
        token = request.headers.get("x-ray-authorization", "").removeprefix("Bearer ")
        if self.recording:
            self.asked.append(Asked(self.now(), head, request.method, request.path, token))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            return await self._answered(head, request, token)
        finally:
            self.in_flight -= 1

    async def _answered(
        self, head: Head, request: DashboardRequest, token: str
    ) -> DashboardResponse:
        place = self.live(head)
        fault = self._fault_of(head)
        if isinstance(head, ServeProxy) and place is not None:
            return await self._answered_by_proxy(head, place, fault)
        if place is None or fault is Fault.REFUSES:
            raise NoResponse(f"{request}: connection refused")
        if fault is Fault.SILENT:
            await asyncio.get_running_loop().create_future()
        await asyncio.sleep(self.latency(head))
        if fault in _FAULTY_ANSWERS:
            return _FAULTY_ANSWERS[fault]
        if self.token and token != self.token and not request.path.endswith("healthz"):
            return recorded("auth-missing-token-401")
        answer = self._routed(place, request)
        if fault is Fault.NO_CONTROLLER and request.method == "GET" and "/serve/" in request.path:
            return recorded("serve-get-never-deployed")
        if fault is Fault.LOSES_ANSWERS:
            raise NoResponse(f"{request}: connection reset")
        if fault is Fault.TRUNCATED:
            return replace(answer, body=answer.body[: len(answer.body) // 2])
        return answer

    async def _answered_by_proxy(
        self, proxy: ServeProxy, place: Incarnation, fault: Fault | None
    ) -> DashboardResponse:
        health = self.serve(place).proxy_health(proxy.address)
        if fault is Fault.REFUSES or health is None:
            raise NoResponse("GET /-/healthz: connection refused")
        if fault is Fault.SILENT:
            await asyncio.get_running_loop().create_future()
        await asyncio.sleep(self.latency(proxy))
        answer = DashboardResponse(*health)
        return _FAULTY_ANSWERS.get(fault, answer) if fault else answer

    def _fault_of(self, head: Head) -> Fault | None:
        if isinstance(head, ServeProxy):
            return self._faults.get(f"proxy of {head.pod_uid}")
        for key in (head.pod_uid, head.cluster_uid, ""):
            if key in self._faults:
                return self._faults[key]
        return None

    def _routed(self, place: Incarnation, request: DashboardRequest) -> DashboardResponse:
        answer = self.answer(place, request.method, request.path, request.body)
        return DashboardResponse(*answer)

    def _named(self, job_id: str) -> list[Job]:
        found = [jobs[job_id] for jobs in self._jobs.values() if job_id in jobs]
        if not found:
            raise KeyError(job_id)
        return found


_FAULTY_ANSWERS = {
    Fault.ERROR: DashboardResponse(500, "text/plain", b"Traceback:\nRuntimeError: no agent\n"),
    Fault.ERROR_JSON: DashboardResponse(
        500, "application/json", b'{"status": "FAILED", "submission_id": "x", "result": false}'
    ),
    Fault.HTML: DashboardResponse(200, "text/html", b"<html><body>Welcome</body></html>"),
    Fault.FORBIDDEN: DashboardResponse(403, "text/plain", b"Forbidden: Invalid token"),
}
