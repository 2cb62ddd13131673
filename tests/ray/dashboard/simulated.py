"""A Ray in memory: dashboards of any number of heads, answering as the recorded one did.

`SimulatedRay.connect` stands in for the connection of `DashboardActors`. Time is the running
loop's, so jobs run in virtual time; faults can be switched on for a cluster, a head or all.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from controller.ray.dashboard import JobStatus, ServeProxy
from controller.ray.dashboard.client import TIMEOUT, DashboardClient
from controller.ray.dashboard.closing import PURPOSE
from controller.ray.dashboard.transport import DashboardResponse
from controller.ray.dashboard.values import NoResponse, Unreachable
from tests.ray.dashboard.recorded import recorded, recorded_text
from tests.ray.dashboard.simulated_nodes import NodePod, SimulatedNodes, drained_by
from tests.ray.dashboard.simulated_serve import SimulatedServe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from controller.ray.dashboard import Head
    from controller.ray.dashboard.transport import DashboardRequest

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)  # the same as that of tests/integration/harness.py
NEVER = float("inf")
STOPPING = 2.6
"""Seconds from a stop until the status says so, as real Ray took."""

Incarnation = tuple[str, str, int]


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


@dataclass(frozen=True)
class Course:
    """How a job goes: seconds and result.

    `pending=NEVER`: it waits for resources, and a stop does not end it. `running=NEVER`: it runs
    until it is told otherwise.
    """

    pending: float = 1.0
    running: float = 10.0
    result: JobStatus = JobStatus.SUCCEEDED
    message: str = ""


@dataclass
class Job:
    """A job as a simulated Ray knows it."""

    id: str
    body: dict[str, Any]
    course: Course
    accepted: float
    stop_asked: float | None = None
    ended: tuple[float, JobStatus, str] | None = None

    def status(self, now: float) -> JobStatus:
        return self._state(now)[0]

    def _state(self, now: float) -> tuple[JobStatus, float | None, str]:
        """Status, end and message."""
        if self.ended is not None and self.ended[0] <= now:
            end, status, message = self.ended
            return status, end, message
        begins = self.accepted + self.course.pending
        ends = begins + self.course.running
        stops = NEVER
        if self.stop_asked is not None and self.course.pending != NEVER:
            stops = self.stop_asked + STOPPING
        if stops <= now and stops < ends:
            return JobStatus.STOPPED, stops, "Job was intentionally stopped."
        if now >= ends:
            return self.course.result, ends, self.course.message or _message(self.course.result)
        if now >= begins:
            return JobStatus.RUNNING, None, "Job is currently running."
        return JobStatus.PENDING, None, "Job has not started yet."

    def answer(self, now: float, epoch: datetime = EPOCH) -> DashboardResponse:
        status, end, message = self._state(now)
        failed = status is JobStatus.FAILED
        exit_code = {JobStatus.SUCCEEDED: 0, JobStatus.FAILED: 1}.get(status)
        return recorded(
            _TEMPLATES[status],
            submission_id=self.id,
            status=status.value,
            entrypoint=self.body["entrypoint"],
            metadata=self.body.get("metadata"),
            runtime_env=self.body.get("runtime_env"),
            message=message,
            error_type="JOB_ENTRYPOINT_COMMAND_ERROR" if failed else None,
            start_time=_milliseconds(epoch, self.accepted),
            end_time=None if end is None else _milliseconds(epoch, end),
            driver_exit_code=exit_code,
        )


@dataclass
class Asked:
    """A request that arrived."""

    at: float
    head: Head
    method: str
    path: str
    token: str


@dataclass
class SimulatedRay:
    """All Rays of a test.

    A head incarnation that was not seen before is a new Ray without jobs. A request to a head
    that `live` says is not there is refused, or goes to the incarnation that `live` names: a head
    service leads to the head that is there now.

    Attributes:
        course: of a job, by its submission body; `courses` overrides it by submission id.
        live: the incarnation that serves requests to a head, None if there is none.
        pods: the pods of an incarnation whose containers have joined as nodes.
        drain_course: of the jobs that drain nodes or close connections.
        nodes: IP addresses of the pods of an incarnation that have a Serve proxy.
        latency: seconds that an ordinary answer takes, by head.
        epoch: time of day when the loop's clock showed 0.
        token: that requests must carry; the client sends `client_token()`.
        accepted: each accepted submission in order: incarnation and id.
        asked: every request, if `recording`.
    """

    course: Callable[[dict[str, Any]], Course] = lambda _body: Course()
    live: Callable[[Head], Incarnation | None] = incarnation
    nodes: Callable[[Incarnation], Iterable[str]] = lambda _place: ("10.88.0.2",)
    pods: Callable[[Incarnation], Iterable[NodePod]] = lambda _place: ()
    drain_course: Course = Course(pending=1.0, running=2.0)
    latency: Callable[[Head], float] = lambda _head: 0.005
    timeout: float = TIMEOUT
    epoch: datetime = EPOCH
    token: str = ""
    client_token: Callable[[], str] = lambda: ""
    recording: bool = True
    courses: dict[str, Course] = field(default_factory=dict)
    accepted: list[tuple[Incarnation, str]] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0
    in_flight: int = 0
    most_in_flight: int = 0
    _jobs: dict[Incarnation, dict[str, Job]] = field(default_factory=lambda: defaultdict(dict))
    _faults: dict[str, Fault] = field(default_factory=dict)
    _serves: dict[Incarnation, SimulatedServe] = field(default_factory=dict)
    _nodes: dict[Incarnation, SimulatedNodes] = field(default_factory=dict)
    _drivers: dict[Incarnation, float | None] = field(default_factory=dict)

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
            job.ended = (self.now(), status, message or _message(status))

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

    def serve(self, place: Incarnation) -> SimulatedServe:
        """The Serve of an incarnation; one that was not seen before has deployed nothing."""
        return self._serves.setdefault(place, SimulatedServe())

    def serves(self) -> list[tuple[Incarnation, SimulatedServe]]:
        """All Serves, in the order in which they were first asked."""
        return list(self._serves.items())

    def nodes_of(self, place: Incarnation) -> SimulatedNodes:
        """The nodes of an incarnation, and what they do."""
        return self._nodes.setdefault(place, SimulatedNodes())

    def job(self, head: Head, job_id: str) -> Job | None:
        return self._jobs.get(incarnation(head), {}).get(job_id)

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

    @staticmethod
    def now() -> float:
        return asyncio.get_running_loop().time()

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
            raise Unreachable(f"{request}: connection refused")
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
        answer = self.serve(place).proxy_health(proxy.address)
        if fault is Fault.REFUSES or answer is None:
            raise Unreachable("GET /-/healthz: connection refused")
        if fault is Fault.SILENT:
            await asyncio.get_running_loop().create_future()
        await asyncio.sleep(self.latency(proxy))
        return _FAULTY_ANSWERS.get(fault, answer) if fault else answer

    def _fault_of(self, head: Head) -> Fault | None:
        if isinstance(head, ServeProxy):
            return self._faults.get(f"proxy of {head.pod_uid}")
        for key in (head.pod_uid, head.cluster_uid, ""):
            if key in self._faults:
                return self._faults[key]
        return None

    def _routed(self, place: Incarnation, request: DashboardRequest) -> DashboardResponse:
        match [request.method, *request.path.strip("/").split("/")]:
            case ["GET", "api", *what] if tuple(what) in _USE:
                return _USE[tuple(what)](self, place)
            case ["GET", "api", "version" | "gcs_healthz" | "v0" as what, *_]:
                return self._described(place, what)
            case ["POST", "api", "jobs"]:
                return self._submit(place, json.loads(request.body or b"{}"))
            case [method, "api", "serve", "applications"]:
                return self._served_applications(place, method, request.body)
            case [method, "api", "jobs", job_id, *rest]:
                return self._about(place, method, job_id, rest)
        return DashboardResponse(404, "text/plain", b"404: Not Found")

    def _actors(self, place: Incarnation) -> DashboardResponse:
        serves = place in self._serves and self._serves[place].puts
        found = [{"class_name": "ServeController", "state": "ALIVE"}] if serves else []
        listing = {"total": len(found), "result": found}
        return recorded("state-actors", data={"result": listing})

    def _listed(self, place: Incarnation) -> DashboardResponse:
        jobs = self._jobs[place].values()
        listed = [json.loads(each.answer(self.now(), self.epoch).body) for each in jobs]
        return replace(recorded("jobs-list-empty"), body=json.dumps(listed).encode())

    def _activities(self, place: Incarnation) -> DashboardResponse:
        ended = self._drivers.get(place, -1.0)
        driver = {
            "is_active": "ACTIVE" if ended is None else "INACTIVE",
            "reason": "Number of active drivers: 1" if ended is None else None,
            "timestamp": self.wall().timestamp(),
            "last_activity_at": None
            if ended is None or ended < 0
            else (self.epoch + timedelta(seconds=ended)).timestamp(),
        }
        return recorded("component-activities", driver=driver)

    def _described(self, place: Incarnation, what: str) -> DashboardResponse:
        """What Ray says of itself."""
        if what == "v0":
            return self.nodes_of(place).state(self.pods(place), self.now())
        if what == "version":
            return recorded("version", session_name="-".join(map(str, place)))
        return recorded("gcs-healthz")

    def _served_applications(
        self, place: Incarnation, method: str, body: bytes | None
    ) -> DashboardResponse:
        serve = self.serve(place)
        if method == "PUT":
            return serve.put(body or b"", self.now())
        return serve.state(self.nodes(place), self.now())

    def _submit(self, place: Incarnation, body: dict[str, Any]) -> DashboardResponse:
        if not body.get("entrypoint"):
            return recorded("job-submit-invalid-400")
        job_id = body["submission_id"]
        if job_id in self._jobs[place]:
            return recorded_text("job-submit-duplicate-500", "demo-ok-x7k2p", job_id)
        self._accept(place, body, None)
        return recorded("job-submit", job_id=job_id, submission_id=job_id)

    def _accept(self, place: Incarnation, body: dict[str, Any], course: Course | None) -> Job:
        job_id = body["submission_id"]
        drains = drained_by(body)
        own = PURPOSE in (body.get("metadata") or {})
        usual = self.drain_course if own else self.course(body)
        chosen = course or self.courses.get(job_id) or usual
        job = self._jobs[place][job_id] = Job(job_id, body, chosen, self.now())
        if drains and chosen.result is JobStatus.SUCCEEDED:
            ends = self.now() + chosen.pending + chosen.running
            self.nodes_of(place).drain(body, ends)
        self.accepted.append((place, job_id))
        return job

    def _about(
        self, place: Incarnation, method: str, job_id: str, rest: list[str]
    ) -> DashboardResponse:
        job = self._jobs[place].get(job_id)
        if job is None:
            return recorded_text("job-get-404", "no-such-job", job_id)
        return self._about_known(place, job, method, rest)

    def _about_known(
        self, place: Incarnation, job: Job, method: str, rest: list[str]
    ) -> DashboardResponse:
        ended = job.status(self.now()).terminal
        match (method, *rest):
            case ("GET",):
                return job.answer(self.now(), self.epoch)
            case ("POST", "stop"):
                if not ended and job.stop_asked is None:
                    job.stop_asked = self.now()
                return recorded("job-stop", stopped=not ended)
            case ("DELETE",) if not ended:
                return recorded_text("job-delete-running-500", "demo-long", job.id)
            case ("DELETE",):
                del self._jobs[place][job.id]
                return recorded("job-delete")
        return DashboardResponse(405, "text/plain", b"405: Method Not Allowed")

    def _named(self, job_id: str) -> list[Job]:
        found = [jobs[job_id] for jobs in self._jobs.values() if job_id in jobs]
        if not found:
            raise KeyError(job_id)
        return found


_USE: dict[tuple[str, ...], Callable[[SimulatedRay, Incarnation], DashboardResponse]] = {
    ("v0", "actors"): SimulatedRay._actors,
    ("jobs",): SimulatedRay._listed,
    ("component_activities",): SimulatedRay._activities,
}
"""What answers the questions who uses a cluster."""

_TEMPLATES = {
    JobStatus.PENDING: "job-get-pending",
    JobStatus.RUNNING: "job-get-running",
    JobStatus.STOPPED: "job-get-stopped",
    JobStatus.SUCCEEDED: "job-get-succeeded",
    JobStatus.FAILED: "job-get-failed-exception",
}

_FAULTY_ANSWERS = {
    Fault.ERROR: DashboardResponse(500, "text/plain", b"Traceback:\nRuntimeError: no agent\n"),
    Fault.ERROR_JSON: DashboardResponse(
        500, "application/json", b'{"status": "FAILED", "submission_id": "x", "result": false}'
    ),
    Fault.HTML: DashboardResponse(200, "text/html", b"<html><body>Welcome</body></html>"),
    Fault.FORBIDDEN: DashboardResponse(403, "text/plain", b"Forbidden: Invalid token"),
}


def _message(status: JobStatus) -> str:
    if status is JobStatus.FAILED:
        return "Job entrypoint command failed with exit code 1, last available logs:\nboom\n"
    return {JobStatus.SUCCEEDED: "Job finished successfully."}.get(status, "")


def _milliseconds(epoch: datetime, at: float) -> int:
    return int((epoch + timedelta(seconds=at)).timestamp() * 1000)
